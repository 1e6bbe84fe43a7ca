package kernel

import "fmt"

// Flow stands for all connection tracking entries with the virtual server as
// original destination and the real server as reply source. It is only ever
// removed.
type Flow struct {
	Key RealKey
	// SourceKept leaves alone the entries that translate the client's address.
	SourceKept bool
}

// Kind is KindFlow.
func (Flow) Kind() Kind { return KindFlow }

// String is the conntrack -D form.
func (f Flow) String() string {
	v, r := f.Key.Virtual, f.Key.Addr
	text := fmt.Sprintf("conntrack -D -p %s --orig-dst %s --orig-port-dst %d --reply-src %s --reply-port-src %d",
		v.Proto, v.Addr, v.Port, r.Addr(), r.Port())
	if f.SourceKept {
		text += " # source kept"
	}
	return text
}
