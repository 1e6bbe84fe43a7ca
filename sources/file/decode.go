// Package file reads services from TOML files: the services.toml and services.d/*.toml of an
// administrator, or the services table inside svcproxy.toml.
//
// It is strict, because a typo that is passed over is an outage found by a customer: an unknown or
// duplicate key, a wrong type and a value that cannot be are each refused with file and line, all of
// them in one go. A file is taken or rejected as a whole, and a rejected one keeps its own last good
// content. What is written in a half-written file, a FIFO or a vanished file is never guessed.
//
// Decode is pure, Load reads once, and Source follows the files as they change: of a changed file it reads
// the services whose text is another one.
package file

import (
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// Decode reads a file of services. The table is sorted and holds the services that have no problem;
// name is the file's name in Origins and messages. Of many problems only the first are told. A warning is
// about something that works but is not what it looks like. Whether the services make sense is for
// sources.Validate.
func Decode(name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	r, problems := after(reading{}, name, data)
	return r.table, few(r.warnings), problems
}

// whole is Decode of the document as one, but that it gives all warnings.
func whole(name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: "file", File: name}}
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
	fields.Define("services", fields.Custom(fields.KindTable, func(into *document, n node) error { return into.d.services(n, into.table) }),
		"", "all services of the file, a table each"),
}

// DecodeServices reads the services table of a document that has other keys too, which are left to
// whoever they belong to. source is what Origins say.
func DecodeServices(source, name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: source, File: name}}
	root, ok := d.parse(data, func(top string) bool { return top == "services" })
	if !ok {
		return sources.Table{}, nil, few(d.problems)
	}
	if v, ok := root.V.(map[string]any)["services"]; ok {
		n := root.Under("services", v)
		if err := d.services(n, &t); err != nil {
			d.refuseValue(n, err)
		}
	}
	return t, few(d.warnings), few(d.problems)
}

// parse gives the document, and false when it is not TOML. Of the duplicate keys in it, those under a
// top-level key that ours says yes to are refused here.
func (d *decoder) parse(data []byte, ours func(top string) bool) (node, bool) {
	tree, places, mistakes, ok := fields.Parse(data)
	for _, m := range mistakes {
		if m.Key == "" || ours(m.Top) {
			d.refuse(node{At: &fields.Place{Line: m.Line}}, "%s", m.Message)
		}
	}
	return node{At: places, V: tree}, ok
}
