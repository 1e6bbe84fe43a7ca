package docs

import (
	"embed"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// prosePages has the guide: svcproxy-concepts.7.md is svcproxy-concepts(7).
//
//go:embed pages/*.md
var prosePages embed.FS

// prose returns the pages of the guide by file name: "svcproxy-concepts.7". They are written in a small part of
// Markdown: the title, headings, paragraphs, lists, tables, fenced blocks, links, and words `in bold` and *in italics*.
func (e Edition) prose() (map[string][]byte, error) {
	pages := map[string][]byte{}
	for _, name := range guide() {
		text, err := fs.ReadFile(prosePages, "pages/"+name+".md")
		if err != nil {
			return nil, err
		}
		title, section, _ := cutLast(name)
		short, body, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		p := newPage(title, int(section[0]-'0'), e.Version, e.Date, short)
		p.markdown(body)
		p.seeAlso(others(name)...)
		pages[name] = p.Bytes()
	}
	return pages, nil
}

// guide lists the pages of the guide by name and section: "svcproxy-concepts.7".
func guide() (names []string) {
	entries, _ := fs.ReadDir(prosePages, "pages") // embedded, so it exists
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	return names
}

// others lists the manual pages of this program except one, as "svcproxy(8)".
func others(except string) (names []string) {
	for _, page := range append([]string{"svcproxy.8", "svcproxy.toml.5", "services.toml.5"}, guide()...) {
		if page != except {
			name, section, _ := cutLast(page)
			names = append(names, name+"("+section+")")
		}
	}
	return names
}

// markdown writes the blocks of a text.
func (p *page) markdown(text string) {
	var open string // the macro that the paragraph begins with, if it is an item of a list
	var paragraph, table []string
	flush := func() {
		if len(paragraph) > 0 {
			if open == "" {
				p.paragraph()
			}
			p.WriteString(open + inline(strings.Join(paragraph, " ")))
			p.opened = false
		}
		p.table(table)
		open, paragraph, table = "", nil, nil
	}
	for line, rest := "", text; rest != ""; {
		line, rest, _ = strings.Cut(rest, "\n")
		title, level := heading(line)
		number, step, isStep := strings.Cut(line, ". ")
		_, err := strconv.Atoi(number)
		item, isItem := strings.CutPrefix(line, "- ")
		switch {
		case strings.HasPrefix(line, "```"):
			flush()
			line, rest, _ = strings.Cut(rest, "\n```\n")
			p.literal(line)
		case level == 2:
			flush()
			p.heading(strings.ToUpper(title))
		case level == 3:
			flush()
			p.subheading(title)
		case isItem:
			flush()
			open, paragraph = ".IP \\(bu 2\n", []string{item}
		case isStep && err == nil:
			flush()
			open, paragraph = ".IP "+number+". 3\n", []string{step}
		case strings.HasPrefix(line, "|"):
			table = append(table, line)
		case line == "":
			flush()
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
}

// table writes each row as an item: the first cell is the term. Of more than two columns, each cell has its column's
// title before it.
func (p *page) table(rows []string) {
	cells := func(row string) []string { return strings.Split(strings.Trim(row, "|"), "|") }
	for i, row := range rows {
		if i < 2 { // the titles, and the line below them
			continue
		}
		titles, row := cells(rows[0]), cells(row)
		var said []string
		for c, cell := range row[1:] {
			if cell = strings.TrimSpace(cell); cell != "" && len(titles) > 2 {
				cell = strings.TrimPrefix(strings.TrimSpace(titles[c+1])+": "+cell, ": ")
			}
			if cell != "" {
				said = append(said, cell)
			}
		}
		p.WriteString(".TP\n\\fB" + strings.TrimSpace(inline(row[0])) + "\\fR\n" + inline(strings.Join(said, "; ")))
		p.opened = false
	}
}

var link = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([^\[\]]+)\]\([^()\s]+\)`) })

// inline writes the sentences of a text. Of a link only its words are left.
func inline(s string) string { return emphasised(lines(link().ReplaceAllString(s, "$1"))) }

// heading is the text and level of a heading; level 0 is none.
func heading(line string) (text string, level int) {
	text = strings.TrimLeft(line, "#")
	if level = len(line) - len(text); level == 0 || !strings.HasPrefix(text, " ") {
		return "", 0
	}
	return text[1:], level
}

// emphasised sets what is between backticks in bold and what is between asterisks in italics. In escaped text
// a backtick is \(ga.
func emphasised(s string) string {
	return between(between(s, `\(ga`, `\fB`), "*", `\fI`)
}

// between replaces pairs of a mark by a change of the font and back.
func between(s, mark, font string) string {
	parts := strings.Split(s, mark)
	var b strings.Builder
	for i, part := range parts {
		switch {
		case i == 0:
		case i%2 == 1 && i < len(parts)-1:
			b.WriteString(font)
		case i%2 == 0:
			b.WriteString(`\fR`)
		default:
			b.WriteString(mark) // without a counterpart
		}
		b.WriteString(part)
	}
	return b.String()
}
