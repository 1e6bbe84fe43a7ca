package fields

import "strings"

// The library looks at each character several times over, where much says no more than it shows: a plain string,
// which is one of one line and without escapes, a plain number, which is a few digits, and a comment. A part's
// outline is the part with its plain strings and comments empty and its plain numbers 0. The library accepts the
// outline if and only if it would accept the part, and gives the same values but for the plain ones, whose places
// have what they say: where the scan goes past one, so does the library, unless it has refused the text before.
//
// Most services of a file have the same outline as another, of which the library has made its values already.

// outlines are those that the library has read, and what it gave.
type outlines map[string]map[string]any

// maxOutlines bounds what is remembered of a document whose parts are all different.
const maxOutlines = 1000

// decode is decode of an outline; what it gives is not to be changed.
func (o outlines) decode(outline []byte) (map[string]any, bool) {
	if tree, known := o[string(outline)]; known {
		return tree, true
	}
	text := string(outline)
	tree, err := decode(text)
	if err != nil {
		return nil, false
	}
	if len(o) == maxOutlines {
		clear(o)
	}
	o[text] = tree
	return tree, true
}

// leaveOut leaves out of the outline what stands from one position to another.
func (s *scan) leaveOut(from, to int) {
	s.outline = append(s.outline, s.text[s.outlined:from]...)
	s.outlined = to
}

// plainString passes a string that is plain, and gives what it says; false when it is none, and nothing was
// passed.
func (s *scan) plainString(quote byte) (string, bool) {
	rest := s.text[s.pos+1:]
	end := strings.IndexByte(rest, quote)
	// Three quotes begin a long string: another one must not come to stand behind the two that are left.
	if end < 0 || !plainText(rest[:end]) || strings.HasPrefix(rest[end+1:], string(quote)) {
		return "", false
	}
	s.leaveOut(s.pos+1, s.pos+1+end)
	s.pos += end + 2
	return rest[:end], true
}

// maxPlainDigits are few enough for an integer of any size.
const maxPlainDigits = 9

// plainNumber puts a 0 in the place of the value that was passed from start on, and gives its digits, if it is
// a plain number; else "".
func (s *scan) plainNumber(start int) string {
	digits := strings.TrimRight(s.text[start:s.pos], " \t")
	if len(digits) == 0 || len(digits) > maxPlainDigits || digits[0] == '0' {
		return "" // 0 is its own outline, and 08 none of a number
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return ""
		}
	}
	s.leaveOut(start, start+len(digits))
	s.outline = append(s.outline, '0')
	return digits
}

// plainText says whether a text has neither an escape nor what TOML has no place for.
func plainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '\\' || c == 0x7f {
			return false
		}
	}
	return true
}
