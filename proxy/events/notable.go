package events

import "github.com/svcproxy/svcproxy/proxy/screen"

// Notable reports whether the kind is a change of state worth a notification: something went wrong, or is
// well again. Drains are what the operator asked for.
func (k Kind) Notable() bool {
	return k != Draining && k != Lost && k.Style() != screen.Plain
}
