// Package file reads services from TOML files: the services.toml and services.d/*.toml of an
// administrator, or the services table inside svcproxy.toml.
//
// It is strict, because a typo that passes unnoticed is an outage later. It refuses unknown and duplicate keys,
// wrong types and impossible values. It reports all of them at once, with file and line. A file is accepted or
// refused as a whole. A refused file keeps its own last good content.
//
// Decode is pure. Load reads the files once. Source follows them as they change and reads only the changed
// services of a changed file.
package file

import (
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Decode reads a file of services. The table is sorted and holds the services without a problem. name is the
// file's name in Origins and messages. Decode returns the first 100 problems. A warning is about a value that works
// but is not what it looks like. sources.Validate checks whether the services make sense.
func Decode(name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	r, problems := decodeAfter(reading{}, name, data)
	return r.table, few(r.warnings), problems
}

// decodeWhole is Decode of the whole document, with all warnings. before is the last reading of the file.
func decodeWhole(before sources.Table, name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: sources.Files, File: name}, before: before}
	root, ok := d.parse(data, func(string) bool { return true })
	if !ok {
		return sources.Table{}, nil, few(d.problems)
	}
	table(d, root, documentFields, &document{d, &t})
	return t, d.warnings, few(d.problems)
}

// document is a services file while it is read.
type document struct {
	d     *decoder
	table *sources.Table
}

// documentFields are the keys of a services file itself.
var documentFields = fields.Table[document]{
	fields.Define("healthChecks", fields.Custom(fields.KindTable, func(into *document, n node) error { return into.d.healthChecks(n) }),
		"", "health checks that services of this file share, a table each"),
	fields.Define("services", fields.Custom(fields.KindTable, func(into *document, n node) error { return into.d.services(n, into.table) }),
		"", "all services of the file, a table each"),
}

// DecodeServices reads the tables of services and health checks of a document and ignores its other keys. source is
// for Origins.
func DecodeServices(source, name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: source, File: name}}
	root, ok := d.parse(data, func(top string) bool { return slices.Contains(documentFields.Names(), top) })
	if !ok {
		return sources.Table{}, nil, few(d.problems)
	}
	for _, f := range documentFields {
		if n, ok := root.Under(f.Name); ok {
			if err := f.Set(&document{d, &t}, n); err != nil {
				d.refuseValue(n, err)
			}
		}
	}
	return t, few(d.warnings), few(d.problems)
}

// parse returns the document, or false if it is not TOML. It refuses duplicate keys under those top-level keys for
// which ours returns true.
func (d *decoder) parse(data []byte, ours func(top string) bool) (node, bool) {
	tree, places, mistakes, ok := fields.Parse(data)
	for _, m := range mistakes {
		if m.Key == "" || ours(m.Top) {
			d.refuse(node{At: &fields.Place{Line: m.Line}}, "%s", m.Message)
		}
	}
	return node{At: places, V: tree}, ok
}
