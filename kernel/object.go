package kernel

// Object is one thing in the kernel. Its dynamic type is one of the comparable
// types that Rows lists. String is its line in the canonical text.
type Object interface {
	Kind() Kind
	String() string
}

// Kind is a type of Object: an index of Rows.
type Kind uint8

func (k Kind) String() string { return Rows[k].Name }

// commander is an Object whose tool has other words for a change or a removal
// than for adding it.
type commander interface {
	command(v Verb, was Object) string
}
