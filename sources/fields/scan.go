package fields

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// The TOML library decodes values without their positions: only its syntax errors have one. The scan finds where
// statements, keys and elements stand, and nothing else. It takes some text that is not TOML: the library refuses that.
// What the scan cannot follow is not TOML.

// Limits of a document. Any file may be given, and none must take the process's memory, its stack or minutes. The
// library takes about 1 KB and 10 us for each value.
const (
	maxLines      = 1_000_000
	maxValues     = 500_000 // keys and array elements; 10,000 services of 10 endpoints are 200,000
	maxDepth      = 100     // of nested arrays, inline tables and dotted keys; services.toml needs 6
	maxDuplicates = 100     // that are reported
)

// visitor is told what a scan finds, in the order of the text. A path is valid only during the call. If a method
// returns false, the scan ends there.
type visitor interface {
	// statement begins a header, or a pair "key = value" at the top level, whose value follows.
	statement(st statement) bool
	// pair begins a pair in an inline table. from is where what separates it from the one before begins.
	pair(path []segment, from int) bool
	// elem begins an element of an array, on a line.
	elem(line int) bool
	// end ends the value of the last pair or element that has not ended. The text from the first position to the second
	// one is the value.
	end(from, to int)
	comment(from, to int)
}

// statement is a header, or the beginning of a pair "key = value" outside of values.
type statement struct {
	from   int // where it begins in the text
	path   []segment
	header bool
	array  bool // a header in double brackets
}

// segment is one part of a dotted key.
type segment struct {
	name       string
	line       int
	start, end int // in the text, quotes included
}

// scan is a scanner's state.
type scan struct {
	text string
	pos  int
	line int
	v    visitor // nil: values are passed over

	begun    int       // where the statement that is being read begins
	last     int       // the line on which the last statement ended; 0 before the first
	segments []segment // of the key that is being read, reused
	values   int       // found so far
	excess   *Mistake  // the limit that was passed, or nil
}

func newScan(text string, v visitor) *scan {
	s := &scan{text: text, line: 1, v: v}
	if strings.HasPrefix(text, bom) {
		s.pos = len(bom)
	}
	return s
}

// bom is the byte order mark, which may precede a document.
const bom = "\ufeff"

// document reads all of the text. It returns false if the text is not TOML or exceeds a limit.
func (s *scan) document() bool {
	for s.more() {
		st, ok := s.statement()
		if !ok || !s.v.statement(st) || !st.header && !s.value(0) {
			return false
		}
		s.last = s.line
	}
	return s.pos == len(s.text)
}

// more passes what is between two statements. It returns false at the end, and if the next one does not begin a line.
func (s *scan) more() bool {
	s.blank()
	s.begun = s.pos
	return s.pos < len(s.text) && s.line > s.last
}

// statement reads a header, or a pair up to its value.
func (s *scan) statement() (st statement, ok bool) {
	st.from = s.pos
	end := "="
	if st.header = s.take("["); st.header {
		end = "]"
		if st.array = s.take("["); st.array {
			end = "]]"
		}
	}
	st.path, ok = s.path()
	return st, ok && s.take(end) && s.count()
}

// value reads a value. It returns false if the text is not TOML from here on.
func (s *scan) value(depth int) bool {
	s.spaces()
	if depth > maxDepth {
		return s.tooMuch("nested more than %d deep", maxDepth)
	}
	from := s.pos
	ok := false
	switch {
	case s.peek('"'), s.peek('\''):
		ok = s.str(s.text[s.pos])
	case s.peek('['):
		ok = s.items(']', depth+1)
	case s.peek('{'):
		ok = s.items('}', depth+1)
	default:
		for s.pos < len(s.text) && !endsValue(s.text[s.pos]) {
			s.pos++
		}
		ok = s.pos > from
	}
	if ok && s.v != nil {
		s.v.end(from, s.pos)
	}
	return ok
}

func endsValue(c byte) bool { return c == ',' || c == ']' || c == '}' || c == '#' || c == '\n' }

// items reads the items between brackets, separated by commas.
func (s *scan) items(end byte, depth int) bool {
	for {
		from := s.pos
		s.pos++ // the bracket, or a comma
		s.blank()
		if s.peek(end) {
			s.pos++
			return true
		}
		if end == ']' && !s.elem(depth) || end == '}' && !s.pair(from, depth) {
			return false
		}
		if s.blank(); s.peek(end) {
			s.pos++
			return true
		}
		if !s.peek(',') {
			return false
		}
	}
}

func (s *scan) elem(depth int) bool {
	return s.count() && (s.v == nil || s.v.elem(s.line)) && s.value(depth)
}

func (s *scan) pair(from, depth int) bool {
	path, ok := s.path()
	return ok && s.take("=") && s.count() && (s.v == nil || s.v.pair(path, from)) && s.value(depth)
}

// path reads a key, dotted or not. The result is valid until the next call.
func (s *scan) path() ([]segment, bool) {
	s.segments = s.segments[:0]
	for {
		s.spaces()
		seg := segment{line: s.line, start: s.pos}
		ok := s.segment(&seg)
		if !ok {
			return nil, false
		}
		if s.segments = append(s.segments, seg); len(s.segments) > maxDepth {
			return nil, s.tooMuch("nested more than %d deep", maxDepth)
		}
		if s.spaces(); !s.take(".") {
			return s.segments, true
		}
	}
}

// segment reads the segment that begins here.
func (s *scan) segment(seg *segment) (ok bool) {
	if s.peek('"') || s.peek('\'') {
		ok = s.str(s.text[s.pos]) && s.line == seg.line
		seg.end = s.pos
		if ok {
			seg.name, ok = unquote(s.text[seg.start:seg.end])
		}
		return ok
	}
	s.pos += bareLength(s.text[s.pos:])
	seg.end, seg.name = s.pos, s.text[seg.start:s.pos]
	return seg.name != ""
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
		case c > '\\': // most letters
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
			from := s.pos
			if n := strings.IndexByte(s.text[from:], '\n'); n >= 0 {
				s.pos += n
			} else {
				s.pos = len(s.text)
			}
			if s.v != nil {
				s.v.comment(from, s.pos)
			}
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

// take passes a word, if it comes next.
func (s *scan) take(word string) bool {
	ok := strings.HasPrefix(s.text[s.pos:], word)
	if ok {
		s.pos += len(word)
	}
	return ok
}

// count counts a value. It returns false if it is one too many.
func (s *scan) count() bool {
	s.values++
	return s.values <= maxValues || s.tooMuch("more than %d keys and values", maxValues)
}

// tooMuch ends the scan.
func (s *scan) tooMuch(format string, limit int) bool {
	s.excess = &Mistake{Line: s.line, Message: fmt.Sprintf(format, limit)}
	return false
}
