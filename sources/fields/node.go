package fields

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Node is one value of a document.
type Node struct {
	Key string // in messages
	At  *Place // nil: not known
	V   any    // as the TOML library decodes it; of a part (Reader), the places have the content
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
	return ok || n.inPlaces()
}

// inPlaces reports whether the value is a part's table.
func (n Node) inPlaces() bool { return n.V == nil && n.At != nil }

// Keys are the sorted keys of a table.
func (n Node) Keys() []string {
	t, _ := n.V.(map[string]any)
	keys := slices.AppendSeq(make([]string, 0, n.Size()), maps.Keys(t))
	if n.inPlaces() && n.At.below != nil {
		for _, k := range n.At.below.keys {
			keys = append(keys, k.name)
		}
	}
	slices.Sort(keys)
	return keys
}

// Size is the number of a table's keys.
func (n Node) Size() int {
	if n.inPlaces() && n.At.below != nil {
		return len(n.At.below.keys)
	}
	t, _ := n.V.(map[string]any)
	return len(t)
}

// Under is the value under a key of a table, if there is one.
func (n Node) Under(key string) (Node, bool) {
	at := n.At.Key(key)
	if !n.inPlaces() {
		t, _ := n.V.(map[string]any)
		v, ok := t[key]
		return Node{key, at, v}, ok
	}
	if at == nil {
		return Node{}, false
	}
	return Node{key, at, at.V}, true
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
	case list:
		if n.At.below == nil {
			return 0, true
		}
		return len(n.At.below.elems), true
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
	case list:
		e.V = e.At.V
	}
	return e
}

// Text returns a string. The plain strings of a part are only in their places: see skeleton.go.
func (n Node) Text() (string, bool) {
	s, ok := n.V.(string)
	if ok && n.At != nil && n.At.Text != "" {
		s = n.At.Text
	}
	return s, ok
}

// Integer returns an integer. The plain numbers of a part are only in their places, too.
func (n Node) Integer() (int64, bool) {
	i, ok := n.V.(int64)
	if ok && n.At != nil && n.At.Text != "" {
		i, _ = strconv.ParseInt(n.At.Text, 10, 64) // at most 9 digits
	}
	return i, ok
}

// Mistyped is the error of a value that is not of the wanted type.
func (n Node) Mistyped(want string) error {
	return fmt.Errorf("must be %s, not %s", want, TypeOf(n.V))
}
