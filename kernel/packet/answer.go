package packet

// Answer reports whether a condition, or a rule, holds for a packet. That of several conditions together is the
// least of theirs.
type Answer uint8

// The answers.
const (
	No Answer = iota
	// Unknown: it depends on something that is not known of the packet or of the node, or it is not understood.
	Unknown
	Yes
)

func (a Answer) String() string { return [...]string{"no", "cannot tell", "yes"}[a] }

func not(a Answer) Answer { return Yes - a }

func yes(b bool) Answer {
	if b {
		return Yes
	}
	return No
}
