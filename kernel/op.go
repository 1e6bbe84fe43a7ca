package kernel

import "fmt"

// Verb is what an Op does to its object.
type Verb uint8

// The verbs.
const (
	Add Verb = iota
	Change
	Remove
)

// String gives the sign that starts an op's line: +, ~ or -.
func (v Verb) String() string { return [...]string{"+", "~", "-"}[v] }

// Op is one step of a plan. Was is the object as read, nil for Add.
type Op struct {
	Verb   Verb
	Object Object
	Was    Object
}

// String is one line: the verb's sign, and the words that the kernel's own tool would
// take for it.
func (o Op) String() string {
	if o.Verb == Change && o.Was != nil {
		return fmt.Sprintf("%s %s (was %s)", o.Verb, o.command(), o.Was)
	}
	return fmt.Sprintf("%s %s", o.Verb, o.command())
}

// command is the object's text, which adds it, with the tool's words for the verb.
func (o Op) command() string {
	if c, ok := o.Object.(commander); ok {
		return c.command(o.Verb, o.Was)
	}
	return o.Object.String()
}
