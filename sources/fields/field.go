package fields

import "slices"

// Key documents one key of a file: for manual pages, schemas and completion.
type Key struct {
	// Path leads to the key from the document: "ipvs.scheduler", "services.NAME.ports[].port". NAME and
	// PORTNAME stand for keys that the writer chooses, [] for each element of an array.
	Path     string
	Kind     Kind
	Words    []string // all values of KindWord
	Min, Max int      // of an integer; Max math.MaxInt32 is no limit
	Default  string   // as TOML; "" = none: the key is then absent
	Comment  string   // one line

	Flag    string // the flag that sets the same, without its dashes; "" if there is none
	Restart bool   // a change needs a restart
}

// Value moves the value of one key into a T and out of it.
type Value[T any] struct {
	Kind     Kind
	Words    []string
	Min, Max int
	Set      func(into *T, n Node) error
	Get      func(from *T) any // what Set takes; it panics if the type has no Write
}

// At is a value of type t, kept where at says.
func At[T, V any](at func(*T) *V, t Type[V]) Value[T] {
	return Value[T]{
		Kind: t.Kind, Words: t.Words, Min: t.Min, Max: t.Max,
		Set: func(into *T, n Node) error {
			v, err := t.Read(n)
			if err == nil {
				*at(into) = v
			}
			return err
		},
		Get: func(from *T) any { return t.Write(*at(from)) },
	}
}

// AtPointer is At for a pointer, which stays nil if the key is absent.
func AtPointer[T, V any](at func(*T) **V, t Type[V]) Value[T] {
	v := At(func(into *T) *V {
		*at(into) = new(V)
		return *at(into)
	}, t)
	v.Get = nil
	return v
}

// Custom is a value of a kind that set reads.
func Custom[T any](kind Kind, set func(into *T, n Node) error) Value[T] {
	return Value[T]{Kind: kind, Set: set}
}

// Field is one key of a table.
type Field[T any] struct {
	Name string
	Value[T]
	Default string // see Key
	Comment string // one line
}

// Define makes a field.
func Define[T any](name string, v Value[T], byDefault, comment string) Field[T] {
	return Field[T]{Name: name, Value: v, Default: byDefault, Comment: comment}
}

// Table lists the keys that a table of a document may have, in the order to read and explain them.
type Table[T any] []Field[T]

// Names are sorted.
func (t Table[T]) Names() []string {
	names := make([]string, len(t))
	for i, f := range t {
		names[i] = f.Name
	}
	slices.Sort(names)
	return names
}

// Keys documents the fields below a path.
func (t Table[T]) Keys(path string) []Key {
	keys := make([]Key, len(t))
	for i, f := range t {
		keys[i] = Key{
			Path: path + f.Name, Kind: f.Kind, Words: slices.Clone(f.Words), Min: f.Min, Max: f.Max,
			Default: f.Default, Comment: f.Comment,
		}
	}
	return keys
}
