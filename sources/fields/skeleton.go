package fields

import "strings"

// The TOML library takes some 400 instructions for each character. Most services of a file differ only in plain
// strings (one line, no escapes), plain numbers (at most 9 digits) and comments. A part's skeleton is the part with
// these strings and comments empty and these numbers 0. The library decodes each skeleton once; the plain values come
// from the scan, which puts them in the places.
//
// The library accepts a skeleton if and only if it would accept the part, and decodes the same values but for the
// plain ones: FuzzParse checks that.
//
// Services that differ in their keys still have much in common, so a skeleton that is not known is decoded in pieces,
// each as a document. Pairs "key = value" that follow each other, each on lines of its own, are one document with the
// keys of all, if no key has dots or is there twice. And an array may have any values as its elements, so it is
// decoded with a 0 in the place of each, and the elements by themselves.
//
// Measured with 5,000 services of 5 endpoints: a start takes 1,407 million instructions, and 2,284 without skeletons.

// skeletons are the decoded values by skeleton.
type skeletons struct {
	parts, pieces map[string]map[string]any
}

func newSkeletons() skeletons {
	return skeletons{map[string]map[string]any{}, map[string]map[string]any{}}
}

// maxSkeletons bounds the memory for a document whose parts, or pieces, are all different.
const maxSkeletons = 1000

// decode decodes the skeleton of a part. The result must not be changed.
func (o skeletons) decode(skeleton []byte, c cuts) (tree map[string]any, ok bool) {
	if tree, known := o.parts[string(skeleton)]; known {
		return tree, true
	}
	if tree, ok = o.byPairs(skeleton, c); !ok {
		var err error
		if tree, err = decode(string(skeleton)); err != nil {
			return nil, false
		}
	}
	remember(o.parts, string(skeleton), tree)
	return tree, true
}

// byPairs decodes a skeleton in pieces. It returns false if that cannot be done.
func (o skeletons) byPairs(skeleton []byte, c cuts) (map[string]any, bool) {
	if c.never || len(c.pairs) == 0 {
		return nil, false
	}
	all, elems := make(map[string]any, len(c.pairs)), c.elems
	for i, start := range c.pairs {
		end := len(skeleton)
		if i+1 < len(c.pairs) {
			end = c.pairs[i+1]
		}
		n := 0
		for n < len(elems) && elems[n].to <= end {
			n++
		}
		key, value, ok := o.pair(skeleton[start:end], start, elems[:n])
		if !ok {
			return nil, false
		}
		elems, all[key] = elems[n:], value
	}
	return all, len(all) == len(c.pairs)
}

// pair decodes the skeleton of one pair, whose value may be an array of these elements. start is where they count from.
func (o skeletons) pair(skeleton []byte, start int, elems []span) (key string, value any, ok bool) {
	if len(elems) == 0 {
		return o.piece(skeleton)
	}
	frame, at := make([]byte, 0, len(skeleton)), 0
	for _, e := range elems {
		frame = append(append(frame, skeleton[at:e.from-start]...), '0')
		at = e.to - start
	}
	key, value, ok = o.piece(append(frame, skeleton[at:]...))
	if zeros, _ := value.([]any); !ok || len(zeros) != len(elems) {
		return "", nil, false
	}
	values := make([]any, len(elems))
	for i, e := range elems {
		text := append(append(append(frame[:0], "e = "...), skeleton[e.from-start:e.to-start]...), '\n')
		if _, values[i], ok = o.piece(text); !ok {
			return "", nil, false
		}
	}
	return key, values, true
}

// piece decodes a document of one key.
func (o skeletons) piece(skeleton []byte) (key string, value any, ok bool) {
	tree, known := o.pieces[string(skeleton)]
	if !known {
		var err error
		if tree, err = decode(string(skeleton)); err != nil {
			return "", nil, false
		}
		remember(o.pieces, string(skeleton), tree)
	}
	for key, value = range tree {
	}
	return key, value, len(tree) == 1
}

func remember(known map[string]map[string]any, skeleton string, tree map[string]any) {
	if len(known) == maxSkeletons {
		clear(known)
	}
	known[skeleton] = tree
}

// cuts are the places at which a skeleton can be cut.
type cuts struct {
	pairs []int  // where those of the document's top level begin
	elems []span // of the arrays that are their values
	ended int    // the line on which the last pair ended
	never bool   // there is a header, a key with dots, or two pairs on one line
}

// span is a part of a skeleton.
type span struct{ from, to int }

// cut returns the present position in the skeleton.
func (s *scan) cut() int {
	s.leaveOut(s.pos, s.pos)
	return len(s.skeleton)
}

// cutPair notes that a pair of the top level begins here.
func (s *scan) cutPair() {
	c := &s.cuts
	switch {
	case c.never || s.skeleton == nil:
	case len(c.pairs) == 0:
		c.pairs = append(c.pairs, 0) // with what is before the pair
	case s.line == c.ended || strings.HasPrefix(s.text[s.pos:], "\ufeff"): // at the beginning of a document the latter has a meaning
		c.never = true
	default:
		c.pairs = append(c.pairs, s.cut())
	}
}

// leaveOut leaves the text between two positions out of the skeleton.
func (s *scan) leaveOut(from, to int) {
	s.skeleton = append(s.skeleton, s.text[s.copied:from]...)
	s.copied = to
}

// plainString passes a plain string and returns its content. It returns false, and passes nothing, if the string is
// not plain.
func (s *scan) plainString(quote byte) (string, bool) {
	rest := s.text[s.pos+1:]
	end := strings.IndexByte(rest, quote)
	// A third quote after the empty string that is left would begin a long string.
	if end < 0 || !plainText(rest[:end]) || strings.HasPrefix(rest[end+1:], string(quote)) {
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
	digits := strings.TrimRight(s.text[start:s.pos], " \t")
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

// plainText says whether a text has no escape and no character that TOML forbids.
func plainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '\\' || c == 0x7f {
			return false
		}
	}
	return true
}
