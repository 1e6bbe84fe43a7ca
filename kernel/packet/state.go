package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Conditions about what the node knows of a packet: connection tracking, its addresses, IPVS.

// ctStates are the states of connection tracking. A packet is also in DNAT, or SNAT, if a rule of nat changed its
// connection.
var ctStates = []string{"NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED", "DNAT", "SNAT"}

func inState(text string) (cond, error) {
	states := strings.Split(text, ",")
	for _, s := range states {
		if !slices.Contains(ctStates, s) {
			return cond{}, fmt.Errorf("connection state %q is not understood", s)
		}
	}
	return cond{needs: Tracking, holds: func(v *View) Answer {
		state := v.ctState()
		switch {
		case slices.Contains(states, state), v.translated.Proto != 0 && slices.Contains(states, "DNAT"):
			return Yes
		case slices.Contains(states, "SNAT"), slices.Contains(states, "DNAT") && v.draw == nil:
			return Unknown
		}
		return No
	}, why: func(v *View) string {
		if v.translated.Proto != 0 && slices.Contains(states, "DNAT") {
			return "its destination was " + v.translated.AddrPort().String()
		}
		return "it is " + v.ctState()
	}}, nil
}

// ctState returns the state of a packet. Where real servers answer past the node,
// connection tracking sees one direction: later packets of TCP and SCTP are INVALID, and
// those of UDP stay NEW (Linux 6.1, nf_conntrack_tcp_packet).
func (v *View) ctState() string {
	switch {
	case v.State != "":
		return v.State
	case v.Reply:
		return "ESTABLISHED"
	case !v.Established:
		return "NEW"
	case v.Node == nil || !v.Node.oneSided(v):
		return "ESTABLISHED"
	case v.Proto == kernel.UDP:
		return "NEW"
	}
	return "INVALID"
}

// oneSided reports whether a packet goes to a virtual server that does not masquerade.
func (h *Node) oneSided(v *View) bool {
	k, ok := v.virtual, v.virtual.Proto != 0
	if !ok {
		k, ok = h.virtual(v)
	}
	return ok && slices.ContainsFunc(h.State.Reals.Of(k), func(r kernel.Real) bool {
		return r.Forward != kernel.Masquerade
	})
}

// addrTypes are the types that can be told: an address is the node's own, or a group of hosts.
var addrTypes = []string{"LOCAL", "MULTICAST", "UNICAST", "BROADCAST"}

func addrType(source bool, list string) (cond, error) {
	types := strings.Split(list, ",")
	for _, kind := range types {
		if !slices.Contains(addrTypes, kind) {
			return cond{}, fmt.Errorf("address type %q is not understood", kind)
		}
	}
	if len(types) > 1 && slices.Contains(types, "LOCAL") {
		return cond{}, fmt.Errorf("address types %q are not understood", list)
	}
	local, needs := list == "LOCAL", Destination
	if source {
		needs = Source
	}
	return cond{needs: needs | theNode, inside: source && local, holds: func(v *View) Answer {
		a, _ := v.end(source)
		return yes(slices.Contains(types, v.Node.typeOf(a.Addr())))
	}, why: func(v *View) string {
		a, which := v.end(source)
		switch {
		case !local:
			return fmt.Sprintf("the %s %s is %s", which, a.Addr(), v.Node.typeOf(a.Addr()))
		case v.Node.local(a.Addr()):
			return fmt.Sprintf("the %s %s is the node's own", which, a.Addr())
		}
		return fmt.Sprintf("the %s %s is not the node's own", which, a.Addr())
	}}, nil
}

// typeOf is the type of an address, as the kernel's routes have it.
func (h *Node) typeOf(a netip.Addr) string {
	switch {
	case h.local(a):
		return "LOCAL"
	case a.IsMulticast():
		return "MULTICAST"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "BROADCAST"
	}
	return "UNICAST"
}

// balancedFor compares the virtual server that balanced the packet. A packet that was
// not balanced never matches.
func balancedFor(option, text string) (cond, error) {
	var of func(kernel.VirtualKey) bool
	var n uint64
	var err error
	switch option {
	case "--vproto":
		n, err = strconv.ParseUint(text, 10, 8)
		of = func(k kernel.VirtualKey) bool { return k.Proto == kernel.Proto(n) }
	case "--vaddr":
		var a netip.Addr
		a, err = netip.ParseAddr(text)
		of = func(k kernel.VirtualKey) bool { return k.Addr == a }
	case "--vport":
		n, err = strconv.ParseUint(text, 10, 16)
		of = func(k kernel.VirtualKey) bool { return k.Port == uint16(n) }
	}
	if err != nil {
		return cond{}, fmt.Errorf("%s: %w", option, err)
	}
	return cond{needs: history, holds: func(v *View) Answer {
		return yes(v.virtual.Proto != 0 && of(v.virtual))
	}, why: func(v *View) string {
		if v.virtual.Proto == 0 {
			return "no virtual server balanced it"
		}
		return "balanced by " + v.virtual.String()
	}}, nil
}
