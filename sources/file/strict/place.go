package strict

import (
	"fmt"
	"strings"
)

// The TOML library checks the text and gives its values but, once it has parsed them, not where they
// stood: only its own syntax errors have a position. So the text is also scanned for places, the lines
// of its keys and array elements, as a tree of the document's shape. The scan judges nothing: text that
// the library will refuse ends it early. Only duplicate keys are found here, all of them, because the
// library stops at the first.

// Place is where a key or an array element stands.
type Place struct {
	Line    int
	defined bool // by a value or a header of its own, not just as a parent of one
	tables  bool // an array of [[tables]]: a path through it leads to its last element
	keys    map[string]*Place
	elems   []*Place
}

// Key is the place under a key; nil when there is none.
func (p *Place) Key(key string) *Place {
	if p == nil {
		return nil
	}
	return p.keys[key]
}

// Elem is the place of the ith element; nil when there is none.
func (p *Place) Elem(i int) *Place {
	if p == nil || i >= len(p.elems) {
		return nil
	}
	return p.elems[i]
}

// add makes the place under a key.
func (p *Place) add(key string, line int) *Place {
	if p.keys == nil {
		p.keys = make(map[string]*Place)
	}
	c := &Place{Line: line}
	p.keys[key] = c
	return c
}

// enter is the place that a path continues from: under key, made if need be.
func (p *Place) enter(key string, line int) *Place {
	c := p.keys[key]
	if c == nil {
		c = p.add(key, line)
	}
	if c.tables && len(c.elems) > 0 {
		return c.elems[len(c.elems)-1]
	}
	return c
}

// duplicate is a key that was defined before.
type duplicate struct {
	top         string // the key of the document that it is under, or is
	key         string // as written, dots and quotes included
	line, first int
	start, end  int // of its last segment in the text
}

// spare is the name the nth duplicate gets in the text that is parsed, so that what stands under it is
// checked too. No TOML text can hold a zero byte, and no sane one an escaped one.
func spare(n int) string { return fmt.Sprintf("\x00%d", n) }

// Spare says whether a key is a renamed duplicate.
func Spare(key string) bool { return strings.HasPrefix(key, "\x00") }

// rename gives the duplicates their spare names; lines stay what they were. The
// space keeps a name's quote apart from a string's that ends right before it,
// where a line break was forgotten: together they would begin another string.
func rename(text string, dups []duplicate) string {
	var b strings.Builder
	at := 0
	for n, d := range dups {
		b.WriteString(text[at:d.start])
		fmt.Fprintf(&b, ` "\u0000%d"`, n)
		at = d.end
	}
	b.WriteString(text[at:])
	return b.String()
}
