package fields

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Limits of a document. Any file may be given, and none must take the process's memory, its stack or minutes. The
// library takes about 1 KB and 10 us for each value.
const (
	maxLines      = 1_000_000
	maxValues     = 500_000 // keys and array elements; 10,000 services of 10 endpoints are 200,000
	maxDepth      = 100     // of nested arrays, inline tables and dotted keys; services.toml needs 6
	maxDuplicates = 100     // that are reported
)

// scan is a scanner's state.
type scan struct {
	text string
	pos  int
	line int

	above string // the table that all headers are below; "" is the document

	top  string // the top-level key that is being read
	dups []duplicate

	// A key leads through a value, or [[KEY]] to something other than an array of tables. TOML forbids both, but the library
	// takes some.
	through bool

	segments []segment // of the key that is being read

	library  *skeletons // nil if no values are wanted
	pieces   bool       // read in pieces
	skeleton []byte     // of the piece up to copied
	copied   int
	lastLine int // the line on which the last piece ended

	visitor *visitor // nil: values are not visited

	values int      // found so far
	excess *Mistake // the limit that was passed, or nil
}

// locate finds the places of a document. excess is the limit that it exceeds, if any.
func locate(text string) (root *Place, dups []duplicate, excess *Mistake) {
	s := &scan{text: text, line: 1}
	root = &Place{Line: 1}
	s.document(root)
	return root, s.dups, s.excess
}

// tooMuch ends the scan.
func (s *scan) tooMuch(format string, limit int) bool {
	s.excess = &Mistake{Line: s.line, Message: fmt.Sprintf(format, limit)}
	return false
}

// count counts a value. It returns false if it is one too many.
func (s *scan) count() bool {
	s.values++
	return s.values <= maxValues || s.tooMuch("more than %d keys and values", maxValues)
}

// document reads all of the text. It returns false if the text is not TOML or exceeds a limit.
func (s *scan) document(root *Place) bool {
	if strings.HasPrefix(s.text, "\ufeff") {
		s.pos = len("\ufeff")
	}
	current := root
	for {
		s.blank()
		if s.visitor != nil {
			s.visitor.read = s.pos
		}
		if s.pos == len(s.text) {
			return s.library == nil || s.endPiece()
		}
		if s.pieces && !s.beginPiece() {
			return false
		}
		if s.text[s.pos] == '[' {
			next, ok := s.header(root)
			if !ok {
				return false
			}
			current = next
		} else {
			if current == root {
				s.top = ""
			}
			if !s.pair(current, 0) {
				return false
			}
		}
		s.lastLine = s.line
	}
}

// header reads [a.b] or [[a.b]] and returns the place of the following keys.
func (s *scan) header(root *Place) (*Place, bool) {
	s.pos++
	tables := s.peek('[')
	if tables {
		s.pos++
	}
	if s.above != "" && !s.passAbove() {
		return nil, false
	}
	path, ok := s.path()
	if !ok || !s.peek(']') {
		return nil, false
	}
	s.pos++
	if tables {
		if !s.peek(']') {
			return nil, false
		}
		s.pos++
	}

	if !s.count() {
		return nil, false
	}
	s.top = path[0].name
	if s.visitor != nil {
		s.visitor.header(path)
	}
	p, last := s.parents(root, path), path[len(path)-1]
	c := p.Key(last.name)
	if s.pieces && (len(path) > 1 || c != nil && !(tables && c.tables)) {
		return nil, false
	}
	if tables {
		s.through = s.through || c != nil && !c.tables
		if c == nil {
			c = p.add(last.name, last.line)
			c.defined, c.tables, c.V = true, true, list{}
		}
		return c.addElem(last.line), true
	}
	if c != nil && !c.defined {
		c.Line, c.defined = last.line, true // was a parent so far
		return c, true
	}
	return s.define(p, path)
}

// passAbove leaves what is above a header, and the dot after it, out of the skeleton.
func (s *scan) passAbove() bool {
	start := s.pos
	if s.pos += len(s.above); !strings.HasPrefix(s.text[start:], s.above) || !s.peek('.') {
		return false
	}
	s.pos++
	s.leaveOut(start, s.pos)
	return true
}

// pair reads one key = value into p.
func (s *scan) pair(p *Place, depth int) bool {
	path, ok := s.path()
	if !ok || !s.peek('=') {
		return false
	}
	s.pos++
	if s.top == "" {
		s.top = path[0].name
	}
	if !s.count() {
		return false
	}
	if s.pieces && depth == 0 && len(path) > 1 {
		if above := p.Key(path[0].name); len(path) > 2 || above != nil && above.defined {
			return false
		}
	}
	c, ok := s.define(s.parents(p, path), path)
	if ok {
		c.given = true
	}
	if s.visitor != nil {
		return ok && s.visitor.below(path, func() bool { return s.value(c, depth) })
	}
	return ok && s.value(c, depth)
}

func (s *scan) parents(p *Place, path []segment) *Place {
	for _, seg := range path[:len(path)-1] {
		p = p.enter(seg.name, seg.line)
		s.through = s.through || p.given
	}
	return p
}

// define makes the place of the path's last segment, under a spare name if it is a duplicate. It returns false if
// there are too many duplicates.
func (s *scan) define(p *Place, path []segment) (*Place, bool) {
	last := path[len(path)-1]
	name := last.name
	if before := p.Key(name); before != nil {
		if len(s.dups) == maxDuplicates {
			return nil, s.tooMuch("more than %d duplicate keys", maxDuplicates)
		}
		name = spare(len(s.dups))
		key := strings.TrimSpace(s.text[path[0].start:last.end])
		s.dups = append(s.dups, duplicate{s.top, key, last.line, before.Line, last.start, last.end})
	}
	c := p.add(name, last.line)
	c.defined = true
	return c, true
}

// value reads the value of p. It returns false if the text is not TOML from here on.
func (s *scan) value(p *Place, depth int) bool {
	s.spaces()
	if s.pos == len(s.text) {
		return false
	}
	if depth > maxDepth {
		return s.tooMuch("nested more than %d deep", maxDepth)
	}
	if s.visitor == nil {
		return s.content(p, depth)
	}
	from := s.pos
	ok := s.content(p, depth)
	if ok {
		s.visitor.value(from, s.pos)
	}
	return ok
}

// content reads a value that begins here.
func (s *scan) content(p *Place, depth int) bool {
	start := s.pos
	switch c := s.text[s.pos]; c {
	case '"', '\'':
		if s.library != nil {
			if text, plain := s.plainString(c); plain {
				p.V, p.Text = "", text
				return true
			}
		}
		if !s.str(c) {
			return false
		}
	case '[':
		p.V = list{}
		return s.items(']', func() bool {
			return s.count() && s.elem(p.addElem(s.line), depth)
		})
	case '{':
		return s.items('}', func() bool { return s.pair(p, depth+1) })
	default:
		for s.pos < len(s.text) && !endsValue(s.text[s.pos]) {
			s.pos++
		}
		if s.library != nil {
			if p.Text = s.plainNumber(start); p.Text != "" {
				p.V = int64(0)
				return true
			}
		}
	}
	if s.library == nil || s.pos == start {
		return s.pos > start
	}
	from := s.copyUp(start)
	s.copyUp(s.pos)
	var ok bool
	p.V, ok = s.library.value(s.skeleton[from:])
	return ok
}

func endsValue(c byte) bool { return c == ',' || c == ']' || c == '}' || c == '#' || c == '\n' }

// items reads the items between brackets, separated by commas.
func (s *scan) items(end byte, item func() bool) bool {
	s.pos++
	for {
		s.blank()
		if s.peek(end) {
			s.pos++
			return true
		}
		if s.pos == len(s.text) || !item() {
			return false
		}
		s.blank()
		if s.peek(',') {
			s.pos++
		} else if !s.peek(end) {
			return false
		}
	}
}

// segment is one part of a dotted key.
type segment struct {
	name       string
	line       int
	start, end int // in the text, quotes included
}

// path reads a key, dotted or not. The result is valid until the next call.
func (s *scan) path() ([]segment, bool) {
	s.segments = s.segments[:0]
	for {
		s.spaces()
		s.segments = append(s.segments, segment{line: s.line, start: s.pos})
		if !s.segment(&s.segments[len(s.segments)-1]) {
			return nil, false
		}
		if len(s.segments) > maxDepth {
			return nil, s.tooMuch("nested more than %d deep", maxDepth)
		}
		s.spaces()
		if !s.peek('.') {
			return s.segments, true
		}
		s.pos++
	}
}

// segment reads the segment that begins here.
func (s *scan) segment(seg *segment) bool {
	if s.peek('"') || s.peek('\'') {
		ok := s.str(s.text[s.pos])
		seg.end = s.pos
		if !ok || s.line != seg.line {
			return false
		}
		seg.name, ok = unquote(s.text[seg.start:seg.end])
		return ok
	}
	rest := s.text[s.pos:]
	n := 0
	for n < len(rest) && !endsKey[rest[n]] {
		n++
	}
	s.pos += n
	seg.end, seg.name = s.pos, rest[:n]
	return n > 0
}

// endsKey are the characters that end a key without quotes.
var endsKey = [256]bool{
	' ': true, '\t': true, '\r': true, '\n': true, '.': true, '=': true, '[': true, ']': true, '{': true, '}': true, ',': true, '#': true, '"': true, '\'': true,
}

// unquote reads a quoted key. The library decodes the escapes.
func unquote(quoted string) (string, bool) {
	inner := quoted[1 : len(quoted)-1]
	if quoted[0] == '\'' || !strings.Contains(inner, `\`) {
		return inner, true
	}
	var v struct{ K string }
	if err := toml.Unmarshal([]byte("K = "+quoted), &v); err != nil {
		return "", false
	}
	return v.K, true
}

// str passes a string of any of TOML's four kinds.
func (s *scan) str(quote byte) bool {
	long := s.quotes(quote) >= 3
	if s.pos++; long {
		s.pos += 2
	}
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == '\\' && quote == '"':
			s.pos++ // skip the next character, too: a quote or the end of the line
			if s.peek('\n') {
				s.line++
			}
		case c == '\n':
			if !long {
				return false
			}
			s.line++
		case c != quote:
		case !long:
			s.pos++
			return true
		default:
			if n := s.quotes(quote); n >= 3 {
				s.pos += min(n, 5) // the content of a long string may end in up to two quotes
				return true
			}
		}
	}
	s.pos = len(s.text)
	return false
}

// quotes is how many quotes come next, at most 5.
func (s *scan) quotes(quote byte) (n int) {
	for n < 5 && s.pos+n < len(s.text) && s.text[s.pos+n] == quote {
		n++
	}
	return n
}

// blank passes spaces, ends of lines and comments.
func (s *scan) blank() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r':
		case '\n':
			s.line++
		case '#':
			n := strings.IndexByte(s.text[s.pos:], '\n')
			if n < 0 {
				n = len(s.text) - s.pos
			}
			if s.library != nil && plainText(s.text[s.pos:s.pos+n]) {
				s.leaveOut(s.pos+1, s.pos+n)
			}
			if s.visitor != nil {
				s.visitor.comment(s.pos, s.pos+n)
			}
			s.pos += n
			continue
		default:
			return
		}
		s.pos++
	}
}

func (s *scan) spaces() {
	for s.peek(' ') || s.peek('\t') {
		s.pos++
	}
}

func (s *scan) peek(c byte) bool { return s.pos < len(s.text) && s.text[s.pos] == c }
