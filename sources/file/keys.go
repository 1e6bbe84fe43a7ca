package file

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Key is one key of a services file, for documentation and schemas.
type Key struct {
	// Path leads to it from the document: "services.NAME.ports[].port". NAME and PORTNAME stand for keys of
	// the writer's choice, [] for each element of an array.
	Path    string
	Kind    Kind
	Words   []string // that it may be, if those are all
	Default string   // as it would be written; "" = none, the key is then absent
	Comment string   // one line
}

// Kind is what a value must be.
type Kind string

// The kinds. A list is a TOML array; a duration is a string as Go has them: "30s", "3h".
const (
	Table             Kind = "table"
	Tables            Kind = "list of tables"
	AddressesOrTables Kind = "list of IP addresses or tables"
	Addresses         Kind = "list of IP addresses"
	CIDRs             Kind = "list of CIDRs"
	Address           Kind = "IP address"
	PortNumber        Kind = "port number" // 1 to 65535
	WeightNumber      Kind = "weight"      // 0 to 65535
	Duration          Kind = "duration"    // not negative
	Boolean           Kind = "boolean"
	Word              Kind = "word"   // a string, one of Words
	Text              Kind = "string" // any
)

// Keys are all keys that a services file may have, in the order to explain them. They are those that
// Decode reads: it has no others.
func Keys() []Key {
	const service = "services.NAME"
	keys := append(documentFields.keys(""),
		Key{Path: service, Kind: Table, Comment: `one service; NAME is its name, or "namespace/name" in quotes`})
	for _, k := range serviceFields.keys(service + ".") {
		keys = append(keys, k)
		below := k.Path + "[]."
		switch k.Path {
		case service + ".ports":
			keys = append(keys, portFields.keys(below)...)
		case service + ".loadBalancerIPs":
			keys = append(keys, vipFields.keys(below)...)
		case service + ".endpoints":
			keys = append(keys, endpointFields.keys(below)...)
			keys = append(keys, Key{Path: below + "ports.PORTNAME", Kind: PortNumber, Comment: "the port behind the service port named PORTNAME"})
		}
	}
	return keys
}

// fields are the keys a table may have.
type fields[T any] []field[T]

// field is one of them: what its value must be, what it is if absent, what it is for.
type field[T any] struct {
	name string
	value[T]
	absent  string // see Key.Default
	comment string
}

// value is what a value must be, and what reads it into a T.
type value[T any] struct {
	kind  Kind
	words []string
	read  func(*decoder, node, *T)
}

// names are sorted.
func (fs fields[T]) names() []string {
	var names []string
	for _, f := range fs {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// keys documents the fields, in their order, below a path.
func (fs fields[T]) keys(path string) []Key {
	keys := make([]Key, len(fs))
	for i, f := range fs {
		keys[i] = Key{path + f.name, f.kind, slices.Clone(f.words), f.absent, f.comment}
	}
	return keys
}

// The values that are read by what they are alone; at gives where they go.

func textAt[T any](at func(*T) *string) value[T] {
	return value[T]{Text, nil, func(d *decoder, n node, into *T) { d.text(n, at(into)) }}
}

func flagAt[T any](at func(*T) *bool) value[T] {
	return value[T]{Boolean, nil, func(d *decoder, n node, into *T) { d.flag(n, at(into)) }}
}

// optionalFlagAt tells absent from false.
func optionalFlagAt[T any](at func(*T) **bool) value[T] {
	return value[T]{Boolean, nil, func(d *decoder, n node, into *T) {
		given := new(bool)
		d.flag(n, given)
		*at(into) = given
	}}
}

func portAt[T any](at func(*T) *uint16) value[T] {
	return value[T]{PortNumber, nil, func(d *decoder, n node, into *T) { d.port(n, at(into)) }}
}

// optionalDurationAt tells absent from zero.
func optionalDurationAt[T any](at func(*T) **time.Duration) value[T] {
	return value[T]{Duration, nil, func(d *decoder, n node, into *T) {
		given := new(time.Duration)
		d.duration(n, given)
		*at(into) = given
	}}
}

func wordAt[T any, W ~string](at func(*T) *W, known ...W) value[T] {
	v := value[T]{Word, nil, func(d *decoder, n node, into *T) { word(d, n, at(into), known...) }}
	for _, w := range known {
		v.words = append(v.words, string(w))
	}
	return v
}

// schedulerAt is any text here: what is known, and what the kernel has, is for Validate.
func schedulerAt[T any](at func(*T) *string) value[T] {
	return value[T]{Word, sources.Schedulers(), textAt(at).read}
}
