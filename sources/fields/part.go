package fields

import "strings"

// A document that consists of tables [top.NAME] alone can be read table by table, and an unchanged table need not be
// read again. Cut looks only for lines that begin with a header. The result is safe because the library then reads
// each part, or its pieces (skeleton.go), as documents. If Cut had cut inside a string or an array, the library
// would refuse the part. No part affects another: all its headers lead to the one table that it begins with, and
// nothing comes before the first.
//
// Cut and Parse decline everything else, whether it is TOML or not. Then the caller reads the whole document.

// Part is one of a document's tables, with all that is below it.
type Part struct {
	Text string // from the line of its header up to that of the next one's
	Line int    // of its header in the document

	table string // top.NAME as its header has it
	name  string // NAME, if it is plain; else ""
	body  int    // where its keys begin in Text
}

// MaxValues is how many keys and array elements a document may have, in all its parts together.
const MaxValues = maxValues

// Cut returns the tables of a document, or false if it has anything else, or if Cut cannot tell.
func Cut(text, top string) ([]Part, bool) {
	if _, ok := checkText(text); !ok || strings.Contains(text, "\r") {
		return nil, false
	}
	parts := make([]Part, 0, 1+strings.Count(text, "["+top+"."))
	table := ""         // what the last one's headers begin with: "top.NAME"
	start, line := 0, 1 // of it
	for at, end := headerLine(text, 0); at < len(text); at, end = headerLine(text, end) {
		header := strings.TrimLeft(text[at:end], " \t")[1:]
		if len(parts) > 0 && leadsBelow(header, table) {
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
		parts = append(parts, Part{Line: line, table: next, name: name, body: end - at})
		table, start = next, at
	}
	if len(parts) == 0 {
		return nil, false
	}
	parts[len(parts)-1].Text = text[start:]
	return parts, true
}

// headerLine is the next line whose first character, spaces aside, is a [. Without one it is empty, at the end.
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

// leadsBelow reports whether a header is below the table own: own.x] or [own.x]].
func leadsBelow(header, own string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(header, "["), own)
	return ok && strings.HasPrefix(rest, ".")
}

// tableHeader returns the top.NAME of a header top.NAME]. name is NAME, if it is plain and nothing follows it in the
// line. It declines names with escapes.
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

// plain reports whether a key could be written without quotes, or is two such keys with a slash between.
func plain(key string) bool {
	before, after, _ := strings.Cut(key, "/")
	return bareLength(before) == len(before) && bareLength(after) == len(after)
}

// bareLength is the length of the key without quotes at the beginning of a text.
func bareLength(s string) int {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return i
		}
	}
	return len(s)
}

// nothing reports whether a text defines no key.
func nothing(text string) bool {
	tree, err := decode(text)
	return err == nil && len(tree) == 0
}

// Reader reads the parts of one document. Its results are valid until it reads the next part.
type Reader struct {
	top  string
	scan scan  // reused for each part
	root Place // too
}

// NewReader makes a Reader of the parts that Cut returned for the same top.
func NewReader(top string) *Reader { return &Reader{top: top, scan: scan{library: newSkeletons()}} }

// Parse returns a part's table, with lines that begin at 1, and its number of values. It returns false if the part has
// any problem, or anything but one table.
func (r *Reader) Parse(p Part) (table Node, values int, ok bool) {
	// Without its header, and its name in the headers below it, a part has the pieces of other parts. A byte order mark
	// would now be at the beginning of the document, where it has a meaning.
	if body := p.Text[p.body:]; p.name != "" && !strings.HasPrefix(body, "\ufeff") {
		values, ok := r.parse(body, 2, p.table)
		return Node{Key: p.name, At: &r.root}, values + 1, ok
	}
	values, ok = r.parse(p.Text, 1, "")
	document := Node{At: &r.root}
	top, has := document.Under(r.top)
	if keys := top.Keys(); ok && has && len(document.Keys()) == 1 && len(keys) == 1 {
		table, ok = top.Under(keys[0])
		return table, values, ok
	}
	return Node{}, 0, false
}

// parse parses a text that checkText accepts, as what is below the table above, into the root. It returns false if there
// is any mistake in it.
func (r *Reader) parse(text string, line int, above string) (values int, ok bool) {
	s := &r.scan
	for _, pieces := range []bool{true, false} {
		*s = scan{text: text, line: line, above: above, library: s.library, pieces: pieces, segments: s.segments, skeleton: s.skeleton[:0]}
		r.root.begin(1)
		if s.document(&r.root) && len(s.dups) == 0 && !s.through {
			return s.values, true
		}
	}
	return 0, false
}
