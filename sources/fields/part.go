package fields

import "strings"

// A document that is nothing but tables [top.NAME], one after the other, can be read table by table, and
// one that has not changed need not be read again. Cut finds no tokens for that, only lines that begin
// with a header; what makes it right is that the library then reads each part, or what outline.go leaves of
// it, as a document of its own.
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

	name string // NAME, if that is plain and its header the only one; else ""
	body int    // where its keys begin in Text
}

// MaxValues is how many keys and array elements a document may have. It counts for the parts together.
const MaxValues = maxValues

// Cut gives the tables of a document; false when they are not all there is in it, or not plainly.
func Cut(text, top string) ([]Part, bool) {
	if _, ok := checkText(text); !ok || strings.Contains(text, "\r") {
		return nil, false
	}
	var parts []Part
	table := ""         // what the last one's headers begin with: "top.NAME"
	start, line := 0, 1 // of it
	for at, end := headerLine(text, 0); at < len(text); at, end = headerLine(text, end) {
		header := strings.TrimLeft(text[at:end], " \t")[1:]
		if len(parts) > 0 && leadsBelow(header, table) {
			parts[len(parts)-1].name = ""
			continue
		}
		next, name, ok := tableHeader(header, top)
		if !ok || len(parts) == 0 && !nothing(text[:at]) {
			return nil, false
		}
		if len(parts) > 0 {
			parts[len(parts)-1].Text = text[start:at]
		}
		line += strings.Count(text[start:at], "\n")
		parts = append(parts, Part{Line: line, name: name, body: end - at})
		table, start = next, at
	}
	if len(parts) == 0 {
		return nil, false
	}
	parts[len(parts)-1].Text = text[start:]
	return parts, true
}

// headerLine is the next line that begins with a [, blanks aside; empty, at the end, when there is none.
func headerLine(text string, from int) (start, end int) {
	for {
		n := strings.IndexByte(text[from:], '[')
		if n < 0 {
			return len(text), len(text)
		}
		start, from = from+n, from+n+1
		for start > 0 && (text[start-1] == ' ' || text[start-1] == '\t') {
			start--
		}
		if start == 0 || text[start-1] == '\n' {
			break
		}
	}
	if n := strings.IndexByte(text[from:], '\n'); n >= 0 {
		return start, from + n + 1
	}
	return start, len(text)
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

// Reader reads the parts of one document, whose tables are those of top. What it gives is good until it reads
// the next one.
type Reader struct {
	top      string
	outlines outlines
	scan     scan  // of the last part, for its room
	root     Place // as well
}

// NewReader is for the parts that Cut gave with the same top.
func NewReader(top string) *Reader {
	return &Reader{top: top, outlines: outlines{}, scan: scan{outline: []byte{}}}
}

// Parse gives a part's table, whose lines begin at 1, as the library reads it but for plain strings and numbers,
// whose places have what they say (see outline.go), and how many values are in it; false when there is anything
// wrong with it, or anything but that table in it. Parts share tables: they are not to be changed.
func (r *Reader) Parse(p Part) (name string, table any, at *Place, values int, ok bool) {
	// Keys below no header are the same keys, and a quarter cheaper: the library writes each in full. A
	// byte order mark means something only at the beginning, where it was not.
	if body := p.Text[p.body:]; p.name != "" && !strings.HasPrefix(body, "\ufeff") {
		tree, at, values, ok := r.parse(body, 2)
		return p.name, tree, at, values + 1, ok
	}
	tree, at, values, ok := r.parse(p.Text, 1)
	tables, _ := tree[r.top].(map[string]any)
	if !ok || len(tree) != 1 || len(tables) != 1 {
		return "", nil, nil, 0, false
	}
	for name, table = range tables {
	}
	return name, table, at.Key(r.top).Key(name), values, true
}

// parse is Parse of a text that is known to be one; false when there is any mistake in it.
func (r *Reader) parse(text string, line int) (tree map[string]any, at *Place, values int, ok bool) {
	s := &r.scan
	*s = scan{text: text, line: line, segments: s.segments, outline: s.outline[:0]}
	r.root.begin(1)
	if !s.document(&r.root) || len(s.dups) > 0 {
		return nil, nil, 0, false
	}
	s.leaveOut(len(text), len(text))
	tree, ok = r.outlines.decode(s.outline)
	return tree, &r.root, s.values, ok
}
