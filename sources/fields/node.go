package fields

import (
	"fmt"
	"maps"
	"slices"
)

// Node is one value of a document.
type Node struct {
	Key string // in messages
	At  *Place // nil: not known
	V   any    // as the TOML library decodes it
}

// Line is where the value stands; 0 if that is not known.
func (n Node) Line() int {
	if n.At == nil {
		return 0
	}
	return n.At.Line
}

// IsTable reports whether the value is a table.
func (n Node) IsTable() bool {
	_, ok := n.V.(map[string]any)
	return ok
}

// Keys are the sorted keys of a table.
func (n Node) Keys() []string {
	t, _ := n.V.(map[string]any)
	return slices.Sorted(maps.Keys(t))
}

// Size is the number of a table's keys.
func (n Node) Size() int {
	t, _ := n.V.(map[string]any)
	return len(t)
}

// Under is the value under a key of a table, if there is one.
func (n Node) Under(key string) (Node, bool) {
	t, _ := n.V.(map[string]any)
	v, ok := t[key]
	if !ok {
		return Node{}, false
	}
	return Node{key, n.At.Key(key), v}, true
}

// Has reports whether a table has a key.
func (n Node) Has(key string) bool {
	_, ok := n.Under(key)
	return ok
}

// Len is the number of an array's elements. It returns false if the value is not an array.
func (n Node) Len() (int, bool) {
	switch v := n.V.(type) {
	case []any:
		return len(v), true
	case []map[string]any: // of [[tables]]
		return len(v), true
	}
	return 0, false
}

// Elem is the ith element of an array.
func (n Node) Elem(i int) Node {
	e := Node{Key: n.Key, At: n.At.Elem(i)}
	switch v := n.V.(type) {
	case []any:
		e.V = v[i]
	case []map[string]any:
		e.V = v[i]
	}
	return e
}

// Text returns a string.
func (n Node) Text() (string, bool) {
	s, ok := n.V.(string)
	return s, ok
}

// Integer returns an integer.
func (n Node) Integer() (int64, bool) {
	i, ok := n.V.(int64)
	return i, ok
}

// Mistyped is the error of a value that is not of the wanted type.
func (n Node) Mistyped(want string) error {
	return fmt.Errorf("must be %s, not %s", want, TypeOf(n.V))
}
