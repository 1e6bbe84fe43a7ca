package kernel

import "fmt"

// Flow stands for all connection tracking entries with the virtual server as
// original destination and the real server as reply source. It is only ever
// removed.
type Flow struct {
	Key RealKey
}

// Kind is KindFlow.
func (Flow) Kind() Kind { return KindFlow }

// String is the conntrack -D form.
func (f Flow) String() string {
	v, r := f.Key.Virtual, f.Key.Addr
	return fmt.Sprintf("conntrack -D -p %s --orig-dst %s --orig-port-dst %d --reply-src %s --reply-port-src %d",
		v.Proto, v.Addr, v.Port, r.Addr(), r.Port())
}
