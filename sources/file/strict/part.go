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

	table string // what its headers begin with: "top.NAME"
	name  string // NAME, if that is plain and its header the only one; else ""
	body  int    // where its keys begin in Text
}

// MaxValues is how many keys and array elements a document may have. It counts for the parts together.
const MaxValues = maxValues

// Cut gives the tables of a document; false when they are not all there is in it, or not plainly.
func Cut(text, top string) ([]Part, bool) {
	if _, ok := checkText(text); !ok || strings.Contains(text, "\r") {
		return nil, false
	}
	most := strings.Count(text, "\n[") + 1
	parts, tables := make([]Part, 0, most), make(map[string]bool, most)
	var last *Part
	start, line := 0, 1 // of the last part, and of what is looked at
	for at, next := 0, 0; at < len(text); at, line = next, line+1 {
		next = len(text)
		if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
			next = at + n + 1
		}
		header, ok := bracketed(text[at:next])
		if !ok {
			continue
		}
		if last != nil && leadsBelow(header, last.table) {
			last.name = ""
			continue
		}
		table, name, ok := tableHeader(header, top)
		if !ok || tables[table] || last == nil && !nothing(text[:at]) {
			return nil, false
		}
		tables[table] = true
		if last != nil {
			last.Text = text[start:at]
		}
		parts = append(parts, Part{Line: line, table: table, name: name, body: next - at})
		last, start = &parts[len(parts)-1], at
	}
	if last == nil {
		return nil, false
	}
	last.Text = text[start:]
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

// tableHeader gives top.NAME of a header top.NAME], and NAME, if that is plain and all there is in the
// line. Names that need reading are declined.
func tableHeader(header, top string) (table, name string, ok bool) {
	rest, ok := strings.CutPrefix(header, top+".")
	if !ok || rest == "" {
		return "", "", false
	}
	key, after := rest, ""
	if quote := rest[0]; quote == '"' || quote == '\'' {
		key, after, ok = strings.Cut(rest[1:], rest[:1])
		ok = ok && !strings.Contains(key, `\`)
	} else {
		end := bareLength(rest)
		key, after, ok = rest[:end], rest[end:], end > 0
	}
	after, closed := strings.CutPrefix(after, "]")
	if !ok || !closed {
		return "", "", false
	}
	if strings.Trim(after, " \t\n") == "" && plain(key) {
		name = key
	}
	return header[:len(header)-len(after)-1], name, true
}

// plain says whether a key is one that could do without quotes, or two with a slash between.
func plain(key string) bool {
	before, after, _ := strings.Cut(key, "/")
	return bareLength(before) == len(before) && bareLength(after) == len(after)
}

// bareLength is how much of a text could be a key without quotes.
func bareLength(s string) int {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return i
		}
	}
	return len(s)
}

// nothing says whether a text defines nothing.
func nothing(text string) bool {
	tree, err := decode(text)
	return err == nil && len(tree) == 0
}

// Parse gives the part's table, whose lines begin at 1, as the library reads it, and how many values are in
// it; false when there is anything wrong with it, or anything but that table in it.
func (p Part) Parse(top string) (name string, table any, at *Place, values int, ok bool) {
	// Keys below no header are the same keys, and a quarter cheaper: the library writes each in full. A
	// byte order mark means something only at the beginning, where it was not.
	if body := p.Text[p.body:]; p.name != "" && !strings.HasPrefix(body, "\ufeff") {
		tree, at, values, ok := parsePart(body, 2)
		return p.name, tree, at, values + 1, ok
	}
	tree, at, values, ok := parsePart(p.Text, 1)
	tables, _ := tree[top].(map[string]any)
	if !ok || len(tree) != 1 || len(tables) != 1 {
		return "", nil, nil, 0, false
	}
	for name, table = range tables {
	}
	return name, table, at.Key(top).Key(name), values, true
}

// parsePart is Parse of a text that is known to be one; false when there is any mistake in it.
func parsePart(text string, line int) (tree map[string]any, at *Place, values int, ok bool) {
	s := &scan{text: text, line: line}
	at = &Place{Line: 1}
	s.document(at)
	if len(s.dups) > 0 || s.excess != nil {
		return nil, nil, 0, false
	}
	tree, err := decode(text)
	return tree, at, s.values, err == nil
}
