package docs

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// page is a manual page being written, in the macros of man(7).
type page struct {
	bytes.Buffer
	opened bool // the last line is a heading, which begins a paragraph by itself
}

// newPage begins a page, for example of name "svcproxy.toml" and section 5.
func newPage(name string, section int, version string, date time.Time, short string) *page {
	p := &page{}
	p.WriteString(".\\\" Written by svcproxy docs, from what the program itself reads.\n")
	fmt.Fprintf(p, ".TH %s %d \"%s\" %s %s\n", quote(strings.ToUpper(name)), section, date.UTC().Format(time.DateOnly),
		quote("svcproxy "+version), quote("System Manager's Manual"))
	p.heading("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", escape(name), escape(short))
	return p
}

func (p *page) heading(text string) {
	fmt.Fprintf(p, ".SH %s\n", quote(text))
	p.opened = true
}

func (p *page) subheading(text string) {
	fmt.Fprintf(p, ".SS %s\n", quote(text))
	p.opened = true
}

func (p *page) paragraph() {
	if !p.opened {
		p.WriteString(".PP\n")
	}
	p.opened = false
}

// text writes a paragraph. Line breaks in s are not kept.
func (p *page) text(s string) {
	p.paragraph()
	p.WriteString(lines(s))
}

// item writes a term in bold and its meaning.
func (p *page) item(term, meaning string) {
	fmt.Fprintf(p, ".TP\n.B %s\n%s", escape(term), lines(meaning))
	p.opened = false
}

// flag writes the names of a flag in bold, its value in italics, and its meaning.
func (p *page) flag(names, value, meaning string) {
	term := "\\fB" + escape(names) + "\\fR"
	if value != "" {
		term += " \\fI" + escape(value) + "\\fR"
	}
	fmt.Fprintf(p, ".TP\n%s\n%s", term, lines(meaning))
	p.opened = false
}

// literal writes s as it is.
func (p *page) literal(s string) {
	p.paragraph()
	p.WriteString(".in +4n\n.nf\n")
	for line := range strings.Lines(s) {
		p.WriteString(guard(escape(strings.TrimRight(line, "\n"))) + "\n")
	}
	p.WriteString(".fi\n.in\n")
}

// lines escapes a text and puts each sentence on a line of its own, as roff wants it.
func lines(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	var b strings.Builder
	for _, sentence := range strings.SplitAfter(s, ". ") {
		if sentence = strings.TrimSpace(sentence); sentence != "" {
			b.WriteString(guard(escape(sentence)) + "\n")
		}
	}
	return b.String()
}

// guard protects a line that roff would take for a macro.
func guard(s string) string {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

var escaper = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`)

func escape(s string) string { return escaper.Replace(s) }

// quote makes s one argument of a macro.
func quote(s string) string {
	return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"`
}
