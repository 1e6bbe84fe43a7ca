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

// document is a services file while it is read.
type document struct {
	d     *decoder
	table *sources.Table
}

// documentFields are the keys of a services file itself.
var documentFields = fields.Table[document]{
	fields.Define("healthChecks", fields.Custom(fields.KindTable, func(into *document, n node) error {
		return into.d.healthChecks(n)
	}),
		"", "health checks that services of this file share, a table each"),
	fields.Define("services", fields.Custom(fields.KindTable, func(into *document, n node) error {
		return into.d.services(n, into.table)
	}),
		"", "all services of the file, a table each"),
}

// DecodeServices reads the tables of services and health checks of a document and ignores its other keys. source is
// for Origins.
func DecodeServices(source, name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	d := &decoder{origin: sources.Origin{Source: source, File: name}, others: true}
	r := d.read(reading{}, fields.Cut(data, servicesKey, nil))
	return r.table, few(r.warnings), few(d.problems)
}
