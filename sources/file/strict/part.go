package strict

import "strings"

// A document that is nothing but tables [top.NAME], one after the other, can be read table by table, and
// one that has not changed need not be read again. Cut finds no tokens for that, only lines that begin
// with a header; what makes it right is that the library then reads each part as a document of its own.
// One that it accepts and that ends with its line leaves a reader of the whole between two statements,
// where the part had found it: a cut inside a string or an array leaves a part that is refused. And no
// part can have a say in another: all its headers lead to the one table that it begins with, and nothing
// stands before the first.
//
// Cut and Parse decline what is not plainly so, be it TOML or not: the whole document says what it means
// or what is wrong with it.

// Part is one of a document's tables, with all that is below it.
type Part struct {
	Text string // from the line of its header up to that of the next one's
	Line int    // of its header in the document
}

// MaxValues is how many keys and array elements a document may have. It counts for the parts together.
const MaxValues = maxValues

// Cut gives the tables of a document; false when they are not all there is in it, or not plainly.
func Cut(text, top string) ([]Part, bool) {
	if _, ok := checkText(text); !ok || strings.Contains(text, "\r") {
		return nil, false
	}
	var parts []Part
	var own string // what the headers of the present part begin with: "services.NAME"
	start, line := 0, 1
	for at, next := 0, 0; at < len(text); at, line = next, line+1 {
		next = len(text)
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			next = at + n + 1
		}
		header, ok := bracketed(text[at:next])
		if !ok || own != "" && leadsBelow(header, own) {
			continue
		}
		name, ok := tableHeader(header, top)
		if !ok {
			return nil, false
		}
		if own == "" && !nothing(text[:at]) {
			return nil, false
		}
		if own != "" {
			parts[len(parts)-1].Text = text[start:at]
		}
		own, start = name, at
		parts = append(parts, Part{Line: line})
	}
	if own == "" {
		return nil, false
	}
	parts[len(parts)-1].Text = text[start:]
	return parts, true
}

// bracketed is what follows the [ that a line begins with; false when it begins with something else.
func bracketed(line string) (string, bool) {
	for i := range len(line) {
		switch line[i] {
		case ' ', '\t':
		case '[':
			return line[i+1:], true
		default:
			return "", false
		}
	}
	return "", false
}

// leadsBelow says whether a header is of something in the table own: own.x] or [own.x]].
func leadsBelow(header, own string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(header, "["), own)
	return ok && strings.HasPrefix(rest, ".")
}

// tableHeader gives top.NAME of a header top.NAME]. Names that need reading are declined.
func tableHeader(header, top string) (string, bool) {
	name, ok := strings.CutPrefix(header, top)
	if !ok || len(name) < 2 || name[0] != '.' {
		return "", false
	}
	end := 1
	if quote := name[1]; quote == '"' || quote == '\'' {
		n := strings.IndexByte(name[2:], quote)
		if n < 0 || strings.Contains(name[2:2+n], `\`) {
			return "", false
		}
		end = 2 + n + 1
	} else {
		for end < len(name) && bare(name[end]) {
			end++
		}
	}
	if end == 1 || end == len(name) || name[end] != ']' {
		return "", false
	}
	return header[:len(top)+end], true
}

// bare says whether a byte may be in a key without quotes.
func bare(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// nothing says whether a text defines nothing.
func nothing(text string) bool {
	tree, err := decode(text)
	return err == nil && len(tree) == 0
}

// Parse gives the part's table as a document of its own, whose lines begin at 1, and how many values are in
// it; false when there is anything wrong with it, or anything but that table in it.
func (p Part) Parse(top string) (name string, v any, at *Place, values int, ok bool) {
	s := &scan{text: p.Text, line: 1}
	root := &Place{Line: 1}
	s.document(root)
	if len(s.dups) > 0 || s.excess != nil {
		return "", nil, nil, 0, false
	}
	tree, err := decode(p.Text)
	if err != nil || len(tree) != 1 {
		return "", nil, nil, 0, false
	}
	tables, _ := tree[top].(map[string]any)
	if len(tables) != 1 {
		return "", nil, nil, 0, false
	}
	for name, v = range tables {
	}
	return name, v, root.Key(top).Key(name), s.values, true
}
