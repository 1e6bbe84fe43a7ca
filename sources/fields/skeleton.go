package fields

import "strings"

// The TOML library takes some 400 instructions for each character. Most services of a file differ only in plain
// strings (one line, no escapes), plain numbers (at most 9 digits) and comments. A skeleton is a text with these
// strings and comments empty and these numbers 0. The library decodes each skeleton once. The tables, arrays and plain
// values come from the scan, which puts them in the places; the library decodes all other values.
//
// The library accepts a skeleton if and only if it would accept the text, and decodes the same values but for the
// plain ones: FuzzParse checks that.
//
// Services that differ in their keys still have much in common, so a part is cut into pieces: headers and pairs
// "key = value", each on lines of its own. A part is what its pieces are together where that is clear: no key is there
// twice, headers have one key, and pairs at most two ("a.b = 1"). Otherwise it is one piece. And an array may have any
// values as its elements, so inline tables in it are decoded by themselves, and the array with a 0 in the place of each.
//
// Measured with 5,000 services of 5 endpoints: a start takes 1,407 million instructions, and 2,284 without skeletons.

// skeletons are those that the library accepts.
type skeletons struct {
	pieces map[string]struct{}
	values map[string]any // decoded
}

func newSkeletons() *skeletons { return &skeletons{map[string]struct{}{}, map[string]any{}} }

// maxSkeletons bounds the memory for a document whose pieces are all different.
const maxSkeletons = 1000

// value decodes the skeleton of a value.
func (o *skeletons) value(skeleton []byte) (v any, ok bool) {
	if v, ok = o.values[string(skeleton)]; ok {
		return v, true
	}
	tree, err := decode("e = " + string(skeleton) + "\n")
	if err != nil || len(tree) != 1 {
		return nil, false
	}
	remember(o.values, string(skeleton), tree["e"])
	return tree["e"], true
}

// accepts reports whether the library accepts the skeleton of a piece.
func (o *skeletons) accepts(skeleton []byte) bool {
	if _, known := o.pieces[string(skeleton)]; known {
		return true
	}
	if _, err := decode(string(skeleton)); err != nil {
		return false
	}
	remember(o.pieces, string(skeleton), struct{}{})
	return true
}

func remember[V any](known map[string]V, skeleton string, v V) {
	if len(known) == maxSkeletons {
		clear(known)
	}
	known[skeleton] = v
}

// copyUp copies the text before a position into the skeleton, and returns its length.
func (s *scan) copyUp(pos int) int {
	s.leaveOut(pos, pos)
	return len(s.skeleton)
}

// leaveOut leaves the text between two positions out of the skeleton.
func (s *scan) leaveOut(from, to int) {
	s.skeleton = append(s.skeleton, s.text[s.copied:from]...)
	s.copied = to
}

// endPiece asks the library for the piece that ends here.
func (s *scan) endPiece() bool {
	s.copyUp(s.pos)
	return s.library.accepts(s.skeleton)
}

// beginPiece ends the piece before a header or a pair. It returns false if the two cannot be apart. The first one begins
// with what is before it.
func (s *scan) beginPiece() bool {
	if s.lastLine == 0 {
		return true
	}
	// At the beginning of a document a byte order mark has a meaning.
	if s.line == s.lastLine || strings.HasPrefix(s.text[s.pos:], "\ufeff") || !s.endPiece() {
		return false
	}
	s.skeleton = s.skeleton[:0]
	return true
}

// elem reads an element of an array. An inline table is replaced by 0 if the part is read in pieces.
func (s *scan) elem(p *Place, depth int) bool {
	if !s.pieces || depth > 0 || !s.peek('{') {
		return s.value(p, depth+1)
	}
	from := s.copyUp(s.pos)
	if !s.value(p, depth+1) {
		return false
	}
	s.copyUp(s.pos)
	_, ok := s.library.value(s.skeleton[from:])
	s.skeleton = append(s.skeleton[:from], '0')
	return ok
}

// plainString passes a plain string and returns its content. It returns false, and passes nothing, if the string is
// not plain.
func (s *scan) plainString(quote byte) (string, bool) {
	rest := s.text[s.pos+1:]
	end := 0
	for end < len(rest) && rest[end] != quote && !notPlain[rest[end]] {
		end++
	}
	// A third quote after the empty string that is left would begin a long string.
	if end == len(rest) || rest[end] != quote || end+1 < len(rest) && rest[end+1] == quote {
		return "", false
	}
	s.leaveOut(s.pos+1, s.pos+1+end)
	s.pos += end + 2
	return rest[:end], true
}

// maxPlainDigits are few enough for any integer type.
const maxPlainDigits = 9

// plainNumber replaces the value from start on by 0 and returns its digits, if it is a plain number; else "".
func (s *scan) plainNumber(start int) string {
	digits := s.text[start:s.pos]
	for strings.HasSuffix(digits, " ") || strings.HasSuffix(digits, "\t") {
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 0 || len(digits) > maxPlainDigits || digits[0] == '0' {
		return "" // 0 stays as it is, and 08 is not a number
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return ""
		}
	}
	s.leaveOut(start, start+len(digits))
	s.skeleton = append(s.skeleton, '0')
	return digits
}

// plainText reports whether a text has no escape and no character that TOML forbids.
func plainText(text string) bool {
	for i := range len(text) {
		if notPlain[text[i]] {
			return false
		}
	}
	return true
}

// notPlain are those characters.
var notPlain = func() (set [256]bool) {
	for c := range ' ' {
		set[c] = true
	}
	set['\\'], set[0x7f] = true, true
	return set
}()
