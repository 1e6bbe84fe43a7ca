package fields

import (
	"slices"
	"strings"
)

// Redact returns a document without its comments, and with a substitute for each value that hide reports. hide gets the
// keys that lead to a value, without indexes, and its text. If the document is not TOML from some place on, the result
// ends before the statement there, and ok is false.
func Redact(text, substitute string, hide func(path []string, value string) bool) (out string, ok bool) {
	v := &redactor{text: text, substitute: substitute, hide: hide}
	s := newScan(text, v)
	if ok = s.document(); !ok {
		text = text[:s.begun]
	}
	return edited(text, v.edits), ok
}

// edit replaces the text between two positions.
type edit struct {
	from, to int
	with     string
}

// edited is a text with edits, which are in order. It leaves out those that are not all in the text.
func edited(text string, edits []edit) string {
	var b strings.Builder
	pos := 0
	for _, e := range edits {
		if e.to <= len(text) {
			b.WriteString(text[pos:e.from] + e.with)
			pos = e.to
		}
	}
	b.WriteString(text[pos:])
	return b.String()
}

// redactor is the visitor that notes what Redact changes.
type redactor struct {
	text, substitute string
	hide             func(path []string, value string) bool
	table            []string // the path of the last header
	path             []string // of what is being read
	lengths          []int    // of path around each value that is being read
	edits            []edit   // in order of from
}

func (v *redactor) statement(st statement) bool {
	if st.header {
		v.table = appendNames(nil, st.path)
	}
	v.path = v.table
	return st.header || v.pair(st.path, 0)
}

func (v *redactor) pair(path []segment, _ int) bool {
	v.lengths = append(v.lengths, len(v.path))
	v.path = appendNames(v.path, path)
	return true
}

func appendNames(names []string, path []segment) []string {
	names = slices.Clip(names)
	for _, seg := range path {
		names = append(names, seg.name)
	}
	return names
}

func (v *redactor) elem(int) bool { return v.pair(nil, 0) }

// end notes a value. Values inside of it were noted before.
func (v *redactor) end(from, to int) {
	if v.hide(v.path, v.text[from:to]) {
		n := len(v.edits)
		for n > 0 && v.edits[n-1].from >= from {
			n--
		}
		v.edits = append(v.edits[:n], edit{from, to, v.substitute})
	}
	last := len(v.lengths) - 1
	v.path, v.lengths = v.path[:v.lengths[last]], v.lengths[:last]
}

func (v *redactor) comment(from, to int) { v.edits = append(v.edits, edit{from, to, ""}) }
