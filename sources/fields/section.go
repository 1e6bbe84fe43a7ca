package fields

import (
	"slices"
	"strings"
)

// A document is cut into sections, one for each key of one table, so that unchanged sections need not be read
// again. How a section is written does not matter: as tables, sub-tables or dotted keys, in one place or in several.
//
// The sections together say what the document says. Each statement is in one section, whole and below the same header.
// Statements of two sections have only the table itself in common, and where one defines that otherwise than by its
// header, as "services = {}" does, the document is not cut. Where the scan and the library disagree about the end of a
// statement, the library refuses the section.
//
// Measured by a change of one of 5,000 services of 5 endpoints, in millions of instructions: a plain file takes 35 to
// 46, and any other style 35 to 52. If all text were scanned each time, it would be 75 to 109.

// Document is a text that is cut into sections.
type Document struct {
	text     []byte
	top      string
	joined   []byte         // the runs of a section
	byName   map[string]int // indexes of the sections
	Sections []Section      // in the order in which they begin
	Rest     Section        // what is not below the table
	Mistakes []Mistake      // headers [top.NAME] that are there twice: each begins a section of its own
}

// Section is what a document says of one thing.
type Section struct {
	Name  string // the key below the table
	Same  int    // the index of the section of the last document that has the same name and text, or -1
	first run
	more  []run // most sections have none
}

// run is a part of the text, from a line's beginning.
type run struct {
	from, to int
	line     int  // of the document
	lines    int  // how many it has
	values   int  // how many keys and elements it has; while it is read, how many are before it
	inTop    bool // it begins with keys below the table's own header, which is not in it
	headers  int
	digest   Digest
}

// Cut cuts a document into the sections below the table top and the rest. A document that the scan cannot follow, or
// that exceeds a limit, is all rest. Text that a section of the last document has at the same place is not scanned
// again: that document must have been valid. nil: there is none.
func Cut(text []byte, top string, last *Document) *Document {
	if last == nil {
		last = Uncut(nil)
	}
	all := string(text)
	doc := &Document{text: text, top: top}
	c := &cutter{scan: newScan(all, nil), doc: doc, last: last, run: run{line: 1}, of: rest}
	if _, ok := checkText(all); !ok || !c.cut() {
		return Uncut(text)
	}
	return doc
}

// Uncut is a document that is all rest.
func Uncut(text []byte) *Document {
	return &Document{text: text, Rest: Section{first: run{to: len(text), line: 1, digest: DigestOf(text)}}}
}

// Forget lets the text go, for a document that is only compared with the next one.
func (d *Document) Forget() { d.text, d.joined = nil, nil }

// Text returns a section as a document of its own, until the next call. It has the table's header, if there are keys
// below that.
func (d *Document) Text(s *Section) []byte {
	if len(s.more) == 0 && !s.first.inTop {
		return d.text[s.first.from:s.first.to]
	}
	d.joined = d.joined[:0]
	headed := false
	for r := range s.runs {
		if r.inTop && !headed {
			d.joined = append(append(append(d.joined, '['), d.top...), "]\n"...)
			headed = true
		}
		d.joined = append(d.joined, d.text[r.from:r.to]...)
	}
	return d.joined
}

// ParseRest is Parse for the rest. The places have lines of its own text, and mistakes those of the document.
func (d *Document) ParseRest() (root Node, mistakes []Mistake, ok bool) {
	text := string(d.Text(&d.Rest))
	if m, ok := checkText(text); !ok {
		return root, []Mistake{m}, false // the document is all rest
	}
	tree, at, mistakes, ok := parse(text)
	return Node{At: at, V: tree}, d.Rest.inDocument(mistakes), ok
}

// Parse is ParseRest for a section. It returns the table that the section is about. The library takes a
// quarter more for keys below a header [top.NAME], so that is left out where it is plain and the only one.
func (d *Document) Parse(s *Section) (table Node, mistakes []Mistake, ok bool) {
	text := string(d.Text(s))
	body, headed := strings.CutPrefix(text, "["+d.top+"."+KeyText(s.Name)+"]")
	if headed && plain(s.Name) && s.first.headers == 1 && len(s.more) == 0 {
		tree, at, mistakes, ok := parse(body)
		for i := range mistakes {
			mistakes[i].Top = d.top
		}
		return Node{Key: s.Name, At: at, V: tree}, s.inDocument(mistakes), ok
	}
	tree, at, mistakes, ok := parse(text)
	top, _ := Node{At: at, V: tree}.Under(d.top)
	table, _ = top.Under(s.Name)
	return table, s.inDocument(mistakes), ok
}

// plain reports whether a key could be written without quotes, or is two such keys with a slash between.
func plain(key string) bool {
	before, after, _ := strings.Cut(key, "/")
	return bareLength(before) == len(before) && bareLength(after) == len(after)
}

// inDocument gives mistakes the lines of the document.
func (s *Section) inDocument(mistakes []Mistake) []Mistake {
	for i := range mistakes {
		m := &mistakes[i]
		m.Line, m.First = s.Line(m.Line), s.Line(m.First)
	}
	return mistakes
}

// Line returns the document's line for one of the section's text.
func (s *Section) Line(n int) int {
	headed := false
	line := 0
	for r := range s.runs {
		if r.inTop && !headed {
			headed = true
			n = max(n-1, 1)
		}
		line = r.line + n - 1
		if n <= r.lines {
			break
		}
		n -= r.lines
	}
	return line
}

func (s *Section) runs(yield func(*run) bool) {
	ok := yield(&s.first)
	for i := 0; ok && i < len(s.more); i++ {
		ok = yield(&s.more[i])
	}
}

func (s *Section) sameText(o *Section) bool {
	return s.first.same(&o.first) && slices.EqualFunc(s.more, o.more, func(a, b run) bool { return a.same(&b) })
}

func (r *run) same(o *run) bool { return r.inTop == o.inTop && r.digest == o.digest }

// SameRest reports whether two documents have the same rest.
func (d *Document) SameRest(o *Document) bool { return d.Rest.sameText(&o.Rest) }

// cutter cuts a document.
type cutter struct {
	scan   *scan
	doc    *Document
	last   *Document
	headed []int  // the line of each section's header [top.NAME], or 0
	table  prefix // the path of the last header

	run     run    // the last one, which has no end yet
	of      int    // the section that it belongs to, or rest
	skipped Digest // of the beginning of it that was not scanned
}

const rest = -1

// prefix is the first two keys of a path of n keys.
type prefix struct {
	names [2]string
	n     int
}

func (p prefix) with(path []segment) prefix {
	for i := range path {
		if p.n < len(p.names) {
			p.names[p.n] = path[i].name
		}
		p.n++
	}
	return p
}

// cut reads the text. It returns false if the document must not be cut.
func (c *cutter) cut() bool {
	n := len(c.last.Sections)
	if n == 0 {
		n = strings.Count(c.scan.text, c.doc.top+".") // more than there are, if they have sub-tables
	}
	c.doc.byName, c.headed, c.doc.Sections = make(map[string]int, n), make([]int, 0, n), make([]Section, 0, n)
	s := c.scan
	for s.more() {
		of, line := c.of, s.line
		st, ok := s.statement()
		if !ok || !c.statement(st, line) {
			return false
		}
		if c.of != of && c.skip() {
			continue
		}
		if !st.header && !s.value(0) {
			return false
		}
		s.last = s.line
	}
	c.endRun(len(s.text), s.line, s.values)
	for i := range c.doc.Sections {
		if s := &c.doc.Sections[i]; s.Same >= 0 && !s.sameText(&c.last.Sections[s.Same]) {
			s.Same = -1
		}
	}
	return s.pos == len(s.text)
}

func (c *cutter) statement(st statement, line int) bool {
	path := c.table.with(st.path)
	if st.header {
		path = prefix{}.with(st.path)
		c.table = path
	}
	switch top := path.names[0] == c.doc.top; {
	case top && path.n == 1 && (st.array || !st.header):
		return false
	case !top || path.n == 1:
		c.begin(rest, st, line)
	case st.header && !st.array && path.n == 2:
		return c.tableOf(path.names[1], st, line)
	default:
		c.begin(c.section(path.names[1]), st, line)
	}
	return true
}

// tableOf begins a run with the header [top.NAME]. A second one begins another section of that name.
func (c *cutter) tableOf(name string, st statement, line int) bool {
	of := c.section(name)
	if first := c.headed[of]; first != 0 {
		key := c.scan.text[st.path[0].start:st.path[1].end]
		c.doc.Mistakes = append(c.doc.Mistakes, Mistake{Line: line, First: first, Top: c.doc.top, Key: key})
		of = c.add(name)
	}
	c.headed[of] = line
	c.begin(of, st, line)
	return len(c.doc.Mistakes) <= maxDuplicates
}

// section returns the index of a section, which is made if need be.
func (c *cutter) section(name string) int {
	if c.of != rest && c.doc.Sections[c.of].Name == name {
		return c.of
	}
	if of, ok := c.doc.byName[name]; ok {
		return of
	}
	return c.add(name)
}

func (c *cutter) add(name string) int {
	same, ok := c.last.byName[name]
	if ok {
		name = c.last.Sections[same].Name
	} else {
		name, same = strings.Clone(name), -1 // the text must not stay in memory
	}
	of := len(c.doc.Sections)
	c.doc.Sections = append(c.doc.Sections, Section{Name: name, Same: same})
	c.headed = append(c.headed, 0)
	c.doc.byName[name] = of
	return of
}

// begin begins a run of a section at a statement, unless the last one is of the same section.
func (c *cutter) begin(of int, st statement, line int) {
	if of != c.of {
		from := strings.LastIndexByte(c.scan.text[:st.from], '\n') + 1
		before := c.scan.values - 1 // the statement is one
		c.endRun(from, line, before)
		c.run = run{from: from, line: line, values: before, inTop: !st.header && c.table.n == 1}
		c.of = of
	}
	if st.header {
		c.run.headers++
	}
}

// endRun gives the last run to its section. line and values are what the scan has come to before its end.
func (c *cutter) endRun(to, line, values int) {
	r := &c.run
	r.to, r.lines, r.values = to, line-r.line, values-r.values
	if r.digest = c.skipped; r.digest.Size != to-r.from {
		r.digest = DigestOf(c.doc.text[r.from:to])
	}
	c.skipped = Digest{}
	s := &c.doc.Rest
	if c.of != rest {
		s = &c.doc.Sections[c.of]
	}
	if s.first.line == 0 {
		s.first = *r
	} else {
		s.more = append(s.more, *r)
	}
}

// skip passes the run that has just begun, if the last document has the same one at its place in the section. It was
// valid there, so the scan would end where it ended then: at the beginning of a line, below its last header.
func (c *cutter) skip() bool {
	was := c.lastRun()
	if was == nil || was.inTop != c.run.inTop {
		return false
	}
	text, end := c.doc.text, c.run.from+was.digest.Size
	if end > len(text) || end < len(text) && text[end-1] != '\n' || !was.digest.Is(text[c.run.from:end]) {
		return false
	}
	s := c.scan
	s.pos, s.line, s.values = end, c.run.line+was.lines, c.run.values+was.values
	s.last = s.line - 1
	if c.skipped = was.digest; was.headers > 0 {
		c.run.headers = was.headers
		c.table = prefix{names: [2]string{c.doc.top, c.doc.Sections[c.of].Name}, n: 2}
	}
	return true
}

// lastRun returns the run of the last document at the place of the one that has just begun, or nil.
func (c *cutter) lastRun() *run {
	if c.of == rest || c.doc.Sections[c.of].Same < 0 {
		return nil
	}
	s := &c.doc.Sections[c.of]
	was := &c.last.Sections[s.Same]
	switch n := len(s.more); {
	case s.first.line == 0:
		return &was.first
	case n < len(was.more):
		return &was.more[n]
	}
	return nil
}
