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
// each as a document: pairs "key = value" and headers, each on lines of its own. They are joined where it is clear what
// the library would make of them together: no key is there twice, headers have one key, and pairs at most two ("a.b = 1").
// And an array may have any values as its elements, so it is decoded with a 0 in the place of each, and the elements by
// themselves.
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
	if tree, ok = o.byPieces(skeleton, c); !ok {
		var err error
		if tree, err = decode(string(skeleton)); err != nil {
			return nil, false
		}
	}
	remember(o.parts, string(skeleton), tree)
	return tree, true
}

// byPieces decodes a skeleton in pieces. It returns false if that cannot be done.
func (o skeletons) byPieces(skeleton []byte, c cuts) (map[string]any, bool) {
	if c.never || len(c.pieces) == 0 {
		return nil, false
	}
	all, elems := joined{root: make(map[string]any, len(c.pieces))}, c.elems
	all.table = all.root
	for i, p := range c.pieces {
		end := len(skeleton)
		if i+1 < len(c.pieces) {
			end = c.pieces[i+1].start
		}
		n := 0
		for n < len(elems) && elems[n].to <= end {
			n++
		}
		own := elems[:n]
		if p.kind == dottedPiece {
			own = nil
		}
		key, value, ok := o.pair(skeleton[p.start:end], p.start, own)
		if !ok || !all.add(p.kind, key, value) {
			return nil, false
		}
		elems = elems[n:]
	}
	return all.root, true
}

// joined is a document that is joined of pieces.
type joined struct {
	root, table map[string]any              // table is the last header's
	dotted      map[string]map[string]any   // of table: those that dotted keys made
	lists       map[string][]map[string]any // those that headers [[KEY]] made
}

// add adds a piece. It returns false if its key is there, and may not be there again.
func (j *joined) add(kind pieceKind, key string, value any) bool {
	into := j.table
	switch kind {
	case headerPiece, listPiece:
		into, j.table, j.dotted = j.root, map[string]any{}, nil
		value = j.table
		if kind == listPiece {
			rows, again := j.lists[key]
			if again {
				delete(into, key)
			} else if j.lists == nil {
				j.lists = map[string][]map[string]any{}
			}
			j.lists[key] = append(rows, j.table)
			value = j.lists[key]
		}
	case dottedPiece:
		made, again := j.dotted[key]
		for name, v := range value.(map[string]any) {
			if again {
				into, key, value = made, name, v
				break
			}
			if j.dotted == nil {
				j.dotted = map[string]map[string]any{}
			}
			j.dotted[key] = map[string]any{name: v} // the piece's own table is shared
			value = j.dotted[key]
		}
	}
	_, taken := into[key]
	into[key] = value
	return !taken
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
	pieces []piece
	elems  []span // of the arrays that are values of tables
	ended  int    // the line on which the last piece ended
	never  bool   // two pieces are on one line, or a key has more dots than pieces can have
}

// piece is where a header or a pair begins.
type piece struct {
	start int
	kind  pieceKind
}

type pieceKind int

const (
	pairPiece   pieceKind = iota
	dottedPiece           // a pair whose key has one dot
	headerPiece           // [KEY]
	listPiece             // [[KEY]]
)

// span is a part of a skeleton.
type span struct{ from, to int }

// cut returns the present position in the skeleton.
func (s *scan) cut() int {
	s.leaveOut(s.pos, s.pos)
	return len(s.skeleton)
}

// cutPiece notes that a header or a pair of a table begins here.
func (s *scan) cutPiece() {
	c := &s.cuts
	switch {
	case c.never || s.skeleton == nil:
	case len(c.pieces) == 0:
		c.pieces = append(c.pieces, piece{}) // with what is before it
	case s.line == c.ended || strings.HasPrefix(s.text[s.pos:], "\ufeff"): // at the beginning of a document the latter has a meaning
		c.never = true
	default:
		c.pieces = append(c.pieces, piece{start: s.cut()})
	}
}

// cutKey notes the key of the last piece.
func (s *scan) cutKey(kind pieceKind, keys int) {
	switch last := len(s.cuts.pieces) - 1; {
	case last < 0:
	case kind == pairPiece && keys == 2:
		s.cuts.pieces[last].kind = dottedPiece
	case keys > 1:
		s.cuts.never = true
	default:
		s.cuts.pieces[last].kind = kind
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
