package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// pages has the manual pages with prose: svcproxy-concepts.7.md is svcproxy-concepts(7).
//
//go:embed pages/*.md
var prosePages embed.FS

// prose returns the manual pages with prose by file name: "svcproxy-concepts.7". They are written in a small part of
// Markdown: the title, headings, paragraphs, lists, fenced blocks, and words `in bold` and *in italics*.
func (e Edition) prose() (map[string][]byte, error) {
	entries, err := fs.ReadDir(prosePages, "pages")
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{}
	for _, entry := range entries {
		text, err := fs.ReadFile(prosePages, "pages/"+entry.Name())
		if err != nil {
			return nil, err
		}
		title := strings.TrimSuffix(entry.Name(), ".md")
		name, section, _ := cutLast(title)
		short, body, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		p := newPage(name, int(section[0]-'0'), e.Version, e.Date, short)
		p.markdown(body)
		p.seeAlso(others(entries, entry.Name())...)
		pages[title] = p.Bytes()
	}
	return pages, nil
}

// others are the pages that a page names at its end.
func others(entries []fs.DirEntry, without string) []string {
	names := []string{"svcproxy(8)", "svcproxy.toml(5)", "services.toml(5)"}
	for _, e := range entries {
		if e.Name() != without {
			name, section, _ := cutLast(strings.TrimSuffix(e.Name(), ".md"))
			names = append(names, fmt.Sprintf("%s(%s)", name, section))
		}
	}
	return names
}

// markdown writes the paragraphs of a text.
func (p *page) markdown(text string) {
	var paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			p.paragraph()
			p.WriteString(emphasised(lines(strings.Join(paragraph, " "))))
		}
		paragraph = nil
	}
	for block, rest := "", text; rest != ""; {
		block, rest, _ = strings.Cut(rest, "\n")
		title, level := heading(block)
		number, step, isStep := strings.Cut(block, ". ")
		_, err := strconv.Atoi(number)
		switch item, isItem := strings.CutPrefix(block, "- "); {
		case strings.HasPrefix(block, "```"):
			flush()
			block, rest, _ = strings.Cut(rest, "\n```\n")
			p.literal(block)
		case level == 2:
			flush()
			p.heading(title)
		case level == 3:
			flush()
			p.subheading(title)
		case isItem:
			flush()
			p.WriteString(".IP \\(bu 2\n" + emphasised(lines(item)))
			p.opened = false
		case isStep && err == nil:
			flush()
			p.WriteString(".IP " + number + ". 3\n" + emphasised(lines(step)))
			p.opened = false
		case block == "":
			flush()
		default:
			paragraph = append(paragraph, block)
		}
	}
	flush()
}

// heading is the text and level of a heading; level 0 is none.
func heading(line string) (text string, level int) {
	text = strings.TrimLeft(line, "#")
	if level = len(line) - len(text); level == 0 || !strings.HasPrefix(text, " ") {
		return "", 0
	}
	return text[1:], level
}

// emphasised sets what is between backticks in bold and what is between asterisks in italics. In escaped text a backtick
// is \(ga.
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
