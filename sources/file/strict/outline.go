package strict

import "strings"

// The library looks at each character several times over. A plain string, of one line and without escapes, says
// what stands in it, a plain number, of few digits, what they are, and a comment nothing. A part's outline is what is
// left when the strings and comments are empty and the numbers 0. The library accepts that if and only if it would
// accept the part, and gives the same values but for those: where the scan goes past one, so does the library,
// unless it has refused the text before. What they say is in their places.
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

// maxPlainDigits are no more than any integer has room for.
const maxPlainDigits = 9

// plainNumber gives the digits of a value that was just passed, if they are all there is to it; else "".
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
