package fields

import (
	"slices"
	"strings"
)

// Redact returns a document without its comments, and with a substitute for each value that hide reports. hide gets the
// keys that lead to a value, without indexes, and its text. If the document is not TOML from some place on, the result
// ends before the statement there, and ok is false.
func Redact(text, substitute string, hide func(path []string, value string) bool) (out string, ok bool) {
	v := &visitor{text: text, substitute: substitute, hide: hide}
	s := &scan{text: text, line: 1, visitor: v}
	ok = s.document(&Place{Line: 1})
	end := len(text)
	if !ok {
		end = v.read
	}
	var b strings.Builder
	pos := 0
	for _, e := range v.edits {
		if e.from >= pos && e.to <= end { // else a part of what is left out already, or of what could not be read
			b.WriteString(text[pos:e.from] + e.with)
			pos = e.to
		}
	}
	b.WriteString(text[pos:end])
	return b.String(), ok
}

// visitor notes what Redact changes while a document is scanned.
type visitor struct {
	text, substitute string
	hide             func(path []string, value string) bool
	path             []string // of the statement or the value that is being read
	read             int      // the end of the last whole statement
	edits            []edit   // in order of from
}

// edit replaces the text between two positions.
type edit struct {
	from, to int
	with     string
}

// header notes the path of the following keys.
func (v *visitor) header(path []segment) { v.path = appendNames(nil, path) }

// below calls read with the path of keys below the present one.
func (v *visitor) below(path []segment, read func() bool) bool {
	above := len(v.path)
	v.path = appendNames(v.path, path)
	ok := read()
	v.path = v.path[:above]
	return ok
}

// value notes a value. Values inside of it were noted before.
func (v *visitor) value(from, to int) {
	if v.hide(v.path, v.text[from:to]) {
		v.edits = slices.DeleteFunc(v.edits, func(e edit) bool { return e.from >= from })
		v.edits = append(v.edits, edit{from, to, v.substitute})
	}
}

func (v *visitor) comment(from, to int) { v.edits = append(v.edits, edit{from, to, ""}) }

func appendNames(names []string, path []segment) []string {
	for _, seg := range path {
		names = append(names, seg.name)
	}
	return names
}
