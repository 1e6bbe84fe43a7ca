package kernel

import "net/netip"

// Path asks which way the kernel sends a packet to Dst. Src may be zero: then the kernel
// chooses it. In is the device that the packet comes in by, "" if the node sends it. Mark is
// what rules gave it before it is routed.
type Path struct {
	Src, Dst netip.Addr
	In       string
	Mark     uint32
}

// RouteKind says how a packet leaves, or why it does not.
type RouteKind string

// The kinds of routes, in the words of iproute2, and Forged.
const (
	Unicast     RouteKind = "unicast"
	LocalRoute  RouteKind = "local"
	Unreachable RouteKind = "unreachable" // also if there is no route at all
	Prohibited  RouteKind = "prohibit"
	Blackhole   RouteKind = "blackhole"
	// Forged is the kernel's verdict on a source that should not come in by the device:
	// rp_filter, or an address of the node itself.
	Forged RouteKind = "forged"
)

// Hop is the kernel's answer about a Path.
type Hop struct {
	Kind    RouteKind
	Link    string     // the device that the packet leaves by
	Gateway netip.Addr // zero if the destination is on the link itself
	Source  netip.Addr // the address that the node sends from to the destination
	// Neighbor is the state of the neighbour entry of Gateway or of the destination, in
	// the words of iproute2: reachable, stale, failed. It is "" without an entry.
	Neighbor string
}
