package fields

import "strings"

// Place is where a key or an array element stands. Places form a tree of the document's shape.
type Place struct {
	Line    int
	defined bool // by a value or a header of its own, not only as a parent
	tables  bool // an array of [[tables]]: a path through it leads to its last element
	keys    map[string]*Place
	elems   []*Place
}

// Key is the place under a key; nil if there is none.
func (p *Place) Key(key string) *Place {
	if p == nil {
		return nil
	}
	return p.keys[key]
}

// Elem is the place of the ith element; nil if there is none.
func (p *Place) Elem(i int) *Place {
	if p == nil || i >= len(p.elems) {
		return nil
	}
	return p.elems[i]
}

// add makes a place under a key.
func (p *Place) add(key string, c *Place) *Place {
	if p.keys == nil {
		p.keys = map[string]*Place{}
	}
	p.keys[key] = c
	return c
}

func (p *Place) addElem(line int) *Place {
	e := &Place{Line: line, defined: true}
	p.elems = append(p.elems, e)
	return e
}

// enter is the place under a key, made if need be, from which a path continues.
func (p *Place) enter(seg segment) *Place {
	c := p.Key(seg.name)
	if c == nil {
		c = p.add(seg.name, &Place{Line: seg.line})
	}
	if c.tables {
		return c.elems[len(c.elems)-1]
	}
	return c
}

// placer is the visitor that makes a tree of places. It finds all duplicate keys, because the library stops at the
// first. What stands below a duplicate key is not in the tree.
type placer struct {
	scan    *scan
	root    Place
	current *Place   // the table of the last header
	above   []*Place // the values that are being read, the innermost last
	top     string   // the top-level key that is being read

	mistakes []Mistake // the duplicates
	cuts     []edit    // their text, which the library must not see
	cutFrom  int       // where the last duplicate begins
	cutting  int       // while that is read: its depth in above, or cutTable; else 0
}

// cutTable is that a duplicate header has what follows cut, up to the next header.
const cutTable = -1

// locate finds the places of a document. It returns false if the text is not TOML or exceeds a limit.
func locate(text string) (*placer, bool) {
	v := &placer{root: Place{Line: 1}}
	v.scan, v.current = newScan(text, v), &v.root
	ok := v.scan.document()
	v.endTable(len(text))
	return v, ok
}

func (v *placer) statement(st statement) bool {
	if v.current == &v.root || st.header {
		v.top = st.path[0].name
	}
	if st.header {
		v.endTable(st.from)
		return v.header(st)
	}
	return v.begin(v.current, st.path, st.from)
}

func (v *placer) header(st statement) bool {
	p, last := enterAll(&v.root, st.path)
	c := p.Key(last.name)
	switch {
	case st.array:
		if c == nil {
			c = p.add(last.name, &Place{Line: last.line, defined: true, tables: true})
		}
		v.current = c.addElem(last.line)
	case c != nil && !c.defined: // was a parent so far
		c.Line, c.defined = last.line, true
		v.current = c
	case c != nil:
		v.current = &Place{Line: last.line, defined: true}
		return v.duplicate(c, st.path, st.from, cutTable)
	default:
		v.current = p.add(last.name, &Place{Line: last.line, defined: true})
	}
	return true
}

func (v *placer) pair(path []segment, from int) bool {
	return v.begin(v.above[len(v.above)-1], path, from)
}

// begin makes the place of a pair in the table p.
func (v *placer) begin(p *Place, path []segment, from int) bool {
	p, last := enterAll(p, path)
	c := &Place{Line: last.line, defined: true}
	v.above = append(v.above, c)
	if before := p.Key(last.name); before != nil {
		return v.duplicate(before, path, from, len(v.above))
	}
	p.add(last.name, c)
	return true
}

// enterAll returns the place that has the last segment of a path below it, and that segment.
func enterAll(p *Place, path []segment) (*Place, segment) {
	last := len(path) - 1
	for _, seg := range path[:last] {
		p = p.enter(seg)
	}
	return p, path[last]
}

// duplicate notes a key that is at the place before already, and cuts it, unless a duplicate around it is cut.
func (v *placer) duplicate(before *Place, path []segment, from, depth int) bool {
	if len(v.mistakes) == maxDuplicates {
		return v.scan.tooMuch("more than %d duplicate keys", maxDuplicates)
	}
	last := path[len(path)-1]
	v.mistakes = append(v.mistakes, Mistake{
		Line: last.line, First: before.Line, Top: v.top, Key: strings.TrimSpace(v.scan.text[path[0].start:last.end]),
	})
	if v.cutting == 0 {
		v.cutFrom, v.cutting = from, depth
	}
	return true
}

func (v *placer) elem(line int) bool {
	v.above = append(v.above, v.above[len(v.above)-1].addElem(line))
	return true
}

func (v *placer) end(_, to int) {
	v.endCut(len(v.above), to)
	v.above = v.above[:len(v.above)-1]
}

func (v *placer) endTable(to int) { v.endCut(cutTable, to) }

// endCut ends a cut that began at a depth. The lines stay.
func (v *placer) endCut(depth, to int) {
	if v.cutting == depth {
		lines := strings.Count(v.scan.text[v.cutFrom:to], "\n")
		v.cuts = append(v.cuts, edit{v.cutFrom, to, strings.Repeat("\n", lines)})
		v.cutting = 0
	}
}

func (v *placer) comment(int, int) {}
