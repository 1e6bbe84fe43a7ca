package packet

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// View is a packet as a chain sees it, and what is known about it.
type View struct {
	Packet
	Out     string // the device it leaves by
	Unknown Field  // what is not known
	// Outside: its client is any one outside, at any address and device except loopback ones.
	Outside bool
	Reply   bool // the first reply of a connection
	Node    *Node

	virtual    kernel.VirtualKey // that balanced it, or zero
	translated kernel.VirtualKey // its destination before a rule of nat changed it, or zero
	// draw is set where svcproxy's own rules are followed: it decides where they choose at random, their lists of
	// clients are empty, and virtual and translated are known.
	draw func(chance float64) bool
}

// Field is a set of parts of a packet, or of what else a condition is about.
type Field uint16

// The fields. An address that is not valid is not known either.
const (
	Source Field = 1 << iota
	Destination
	In
	Out
	Mark
	// HighPort: the destination's port is any one from 1024 on, as rules of nat choose them for what they masquerade.
	HighPort
	Tracking // what connection tracking says of it
	theNode  // View.Node
	history  // what only View.draw tells
)

// fieldNames are the fields in words, in their order.
var fieldNames = []string{"source", "destination", "device", "device", "mark", "port", "connection state", "node",
	"history"}

// missing returns what is not known.
func (v *View) missing() Field {
	m := v.Unknown
	if !v.Src.IsValid() {
		m |= Source
	}
	if !v.Dst.IsValid() {
		m |= Destination
	}
	if v.Node == nil {
		m |= theNode
	}
	if v.draw == nil {
		m |= history
	}
	return m
}

// highest and lowest are the range of HighPort.
const lowest, highest = 1024, 65535

func (v *View) family() kernel.Family {
	if v.Dst.IsValid() {
		return kernel.FamilyOf(v.Dst.Addr())
	}
	return kernel.FamilyOf(v.Src.Addr())
}

// end returns one end of the packet and its name.
func (v *View) end(source bool) (a netip.AddrPort, name string) {
	if source {
		return v.Src, "source"
	}
	return v.Dst, "destination"
}

// number is the protocol's, as in the header.
func (v *View) number() uint8 {
	switch {
	case v.Echo && v.family() == kernel.IPv4:
		return 1
	case v.Echo:
		return 58
	}
	return uint8(v.Proto)
}
