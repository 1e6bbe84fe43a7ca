package fields

import (
	"fmt"
	"strconv"
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

// Elem is the ith element of a list, whose value is v.
func (n Node) Elem(i int, v any) Node { return Node{n.Key, n.At.Elem(i), v} }

// Under is the value v under a key of a table.
func (n Node) Under(key string, v any) Node { return Node{key, n.At.Key(key), v} }

// Text returns a string. The plain strings of a Part are only in their places: see skeleton.go.
func (n Node) Text() (string, bool) {
	s, ok := n.V.(string)
	if ok && n.At != nil && n.At.Text != "" {
		s = n.At.Text
	}
	return s, ok
}

// Integer returns an integer. The plain numbers of a Part are only in their places, too.
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
