package fields

import (
	"fmt"
	"strings"
)

// The TOML library decodes values without their positions: only its syntax errors have one. So the text is also
// scanned for places, the lines of keys and array elements, as a tree of the document's shape. The scan ends early at
// text that the library will refuse. It finds all duplicate keys, because the library stops at the first.

// Place is where a key or an array element stands. During the scan, a pointer to a child is invalid after the next
// child is added, because the list may move.
type Place struct {
	Line    int
	V       any    // of a part, its value: a list, nil for a table, else as Node has it
	Text    string // of a part, the content of its plain string or number (see skeleton.go); else ""
	defined bool   // by a value or a header of its own, not only as a parent
	given   bool   // by "key = value"
	tables  bool   // an array of [[tables]]: a path through it leads to its last element
	below   *below // nil when there is nothing
}

// below is what stands under a key or in an element. Most have nothing, and most tables have few keys.
type below struct {
	keys    []keyPlace
	index   map[string]int // of keys, by name; nil while they are few
	lengths uint64         // a bit for each length of a name, modulo 64: most keys that are asked for are absent
	elems   []Place
}

type keyPlace struct {
	name string
	Place
}

// fewKeys is how many keys are found faster by a loop than by a map.
const fewKeys = 16

// Key is the place under a key; nil if there is none.
func (p *Place) Key(key string) *Place {
	if p == nil || p.below == nil || p.below.lengths>>(len(key)%64)&1 == 0 {
		return nil
	}
	if b := p.below; b.index != nil {
		if i, ok := b.index[key]; ok {
			return &b.keys[i].Place
		}
		return nil
	}
	for i := range p.below.keys {
		if k := &p.below.keys[i]; k.name == key {
			return &k.Place
		}
	}
	return nil
}

// Elem is the place of the ith element; nil if there is none.
func (p *Place) Elem(i int) *Place {
	if p == nil || p.below == nil || i >= len(p.below.elems) {
		return nil
	}
	return &p.below.elems[i]
}

// list is the value of an array in a part. The elements are in its place.
type list struct{}

// children is p.below, made if need be.
func (p *Place) children() *below {
	if p.below == nil {
		p.below = new(below)
	}
	return p.below
}

// add makes a place under a key.
func (p *Place) add(key string, line int) *Place {
	b := p.children()
	b.keys = longer(b.keys)
	k := &b.keys[len(b.keys)-1]
	k.name = key
	k.begin(line)
	b.lengths |= 1 << (len(key) % 64)
	switch n := len(b.keys); {
	case b.index != nil:
		b.index[key] = n - 1
	case n > fewKeys:
		b.index = make(map[string]int, 2*n)
		for i, k := range b.keys {
			b.index[k.name] = i
		}
	}
	return &k.Place
}

// addElem makes the place of the next element.
func (p *Place) addElem(line int) *Place {
	b := p.children()
	b.elems = longer(b.elems)
	e := &b.elems[len(b.elems)-1]
	e.begin(line)
	e.defined = true
	return e
}

// begin resets a place, and reuses the memory below it.
func (p *Place) begin(line int) {
	*p = Place{Line: line, below: p.below}
	if b := p.below; b != nil {
		*b = below{keys: b.keys[:0], elems: b.elems[:0]}
	}
}

// longer is a list with one more element, which may hold old memory to reuse.
func longer[E any](list []E) []E {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var e E
	return append(list, e)
}

// enter is the place under key, made if need be, from which a path continues.
func (p *Place) enter(key string, line int) *Place {
	c := p.Key(key)
	if c == nil {
		c = p.add(key, line)
	}
	if c.tables && c.below != nil {
		return &c.below.elems[len(c.below.elems)-1]
	}
	return c
}

// duplicate is a key that is defined again.
type duplicate struct {
	top         string // its top-level key
	key         string // as written, dots and quotes included
	line, first int
	start, end  int // of its last segment in the text
}

// spare is the name of the nth duplicate in the text that is parsed, so that its content is checked, too. No TOML text
// can have a zero byte, and no sane one an escaped zero byte.
func spare(n int) string { return fmt.Sprintf("\x00%d", n) }

// Spare reports whether a key is a renamed duplicate.
func Spare(key string) bool { return strings.HasPrefix(key, "\x00") }

// rename replaces the duplicates by their spare names and keeps the lines. The space separates the name's quote from
// that of a string right before it, where a line break is missing: together they would begin another string.
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
