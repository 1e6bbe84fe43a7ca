package link

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Paths asks the kernel which way packets take. It changes nothing, needs no capability and is for
// a few questions: each is a request of its own.
type Paths struct {
	handle     *netlink.Handle
	names      map[int]string                     // of devices, by index
	neighbours map[neighbourList]neighbourEntries // that were read already
}

type neighbourList struct {
	index  int
	family kernel.Family
}

// neighbourEntries are the states of neighbours by address.
type neighbourEntries map[netip.Addr]string

// OpenPaths opens the routes of the calling thread's network namespace.
func OpenPaths() (*Paths, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening rtnetlink: %w", err)
	}
	if err := h.SetSocketTimeout(nl.Timeout); err != nil {
		h.Close()
		return nil, fmt.Errorf("setting up rtnetlink: %w", err)
	}
	return &Paths{handle: h, names: map[int]string{}, neighbours: map[neighbourList]neighbourEntries{}}, nil
}

// Close releases the socket.
func (p *Paths) Close() { p.handle.Close() }

// refusals are the errors with which the kernel answers a question about a route
// (net/ipv4/fib_semantics.c, fib_props). For a source that should not come in by a device it is
// EXDEV by rp_filter in Linux 6.1.
var refusals = map[unix.Errno]kernel.RouteKind{
	unix.ENETUNREACH: kernel.Unreachable, unix.EHOSTUNREACH: kernel.Unreachable, unix.EACCES: kernel.Prohibited,
	unix.EXDEV: kernel.Forged,
}

// routeKinds are the types of routes that IPv6 answers with.
var routeKinds = map[int]kernel.RouteKind{
	unix.RTN_UNICAST: kernel.Unicast, unix.RTN_LOCAL: kernel.LocalRoute, unix.RTN_UNREACHABLE: kernel.Unreachable,
	unix.RTN_PROHIBIT: kernel.Prohibited, unix.RTN_BLACKHOLE: kernel.Blackhole,
}

// Hop returns the way that the kernel sends packets.
func (p *Paths) Hop(q kernel.Path) (kernel.Hop, error) {
	o := &netlink.RouteGetOptions{Iif: q.In, Mark: q.Mark}
	if q.Src.IsValid() {
		o.SrcAddr = q.Src.AsSlice()
	}
	routes, err := p.handle.RouteGetWithOptions(q.Dst.AsSlice(), o)
	var errno unix.Errno
	if errors.As(err, &errno) {
		if kind, ok := refusals[errno]; ok {
			return kernel.Hop{Kind: kind}, nil
		}
		if errno == unix.EINVAL {
			return kernel.Hop{Kind: p.invalid(q)}, nil
		}
	}
	if err != nil {
		return kernel.Hop{}, fmt.Errorf("asking for the route to %s: %w", q.Dst, err)
	}
	if len(routes) == 0 {
		return kernel.Hop{}, fmt.Errorf("asking for the route to %s: no answer", q.Dst)
	}
	return p.hop(q, &routes[0])
}

// invalid is what EINVAL means: a blackhole; or for what comes in a forged source, which Linux 6.18 does not tell from
// it. A source is expected where the way to it leaves.
func (p *Paths) invalid(q kernel.Path) kernel.RouteKind {
	if q.In != "" {
		if to, err := p.Hop(kernel.Path{Dst: q.Src}); err != nil || to.Kind != kernel.Unicast || to.Link != q.In {
			return kernel.Forged
		}
	}
	return kernel.Blackhole
}

func (p *Paths) hop(q kernel.Path, r *netlink.Route) (h kernel.Hop, err error) {
	kind, known := routeKinds[r.Type]
	if !known {
		return h, fmt.Errorf("the route to %s has the unknown type %d", q.Dst, r.Type)
	}
	h.Kind = kind
	h.Source, _ = addr(r.Src)
	h.Gateway, _ = addr(r.Gw)
	if via, ok := r.Via.(*netlink.Via); ok {
		h.Gateway, _ = addr(via.Addr)
	}
	if kind != kernel.Unicast && kind != kernel.LocalRoute {
		return h, nil
	}
	if h.Link, err = p.name(r.LinkIndex); err != nil || kind == kernel.LocalRoute {
		return h, err
	}
	next := q.Dst
	if h.Gateway.IsValid() {
		next = h.Gateway
	}
	h.Neighbor, err = p.neighbour(r.LinkIndex, next)
	return h, err
}

// addr returns the address of a net.IP.
func addr(ip []byte) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}

func (p *Paths) name(index int) (string, error) {
	if name, ok := p.names[index]; ok {
		return name, nil
	}
	l, err := p.handle.LinkByIndex(index)
	if err != nil {
		return "", fmt.Errorf("looking for device %d: %w", index, err)
	}
	p.names[index] = l.Attrs().Name
	return l.Attrs().Name, nil
}

// neighbourStates are the states of linux/neighbour.h in the words of iproute2.
var neighbourStates = map[int]string{
	netlink.NUD_INCOMPLETE: "incomplete", netlink.NUD_REACHABLE: "reachable", netlink.NUD_STALE: "stale",
	netlink.NUD_DELAY: "delay",
	netlink.NUD_PROBE: "probe", netlink.NUD_FAILED: "failed", netlink.NUD_NOARP: "noarp",
	netlink.NUD_PERMANENT: "permanent",
}

// neighbour returns the state of a neighbour on a device, "" if the kernel has no entry.
func (p *Paths) neighbour(index int, a netip.Addr) (string, error) {
	list := neighbourList{index, kernel.FamilyOf(a)}
	if known, ok := p.neighbours[list]; ok {
		return known[a], nil
	}
	entries, err := p.handle.NeighList(index, int(list.family))
	if err != nil {
		return "", fmt.Errorf("listing neighbours: %w", err)
	}
	known := neighbourEntries{}
	for _, e := range entries {
		if of, ok := addr(e.IP); ok {
			known[of] = neighbourStates[e.State]
		}
	}
	p.neighbours[list] = known
	return known[a], nil
}
