package link

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// node extracts the facts about the node from a survey. ours is the index of our own device, whose
// addresses do not belong to the node.
//
// A routable address on lo belongs to the node, as on hosts that speak BGP. Temporary IPv6
// addresses do not: they change daily, and no peer knows them. Tentative ones do: they will work
// within seconds, and no event would follow. Addresses that another host was found to have do not.
func (s survey) node(ours int) kernel.Node {
	var n kernel.Node
	names := make(map[int]string, len(s.devices))
	for _, d := range s.devices {
		names[d.index] = d.name
	}
	mine := s.addrs[:0:0]
	for _, x := range s.addrs {
		if x.index != ours && x.isNodes() {
			mine = append(mine, x)
			n.Addrs = append(n.Addrs, kernel.NodeAddr{Prefix: x.prefix, Link: names[x.index]})
		}
	}
	n.Bridges, n.MTU = s.bridges(mine), s.mtu(mine)
	kernel.SortFunc(n.Addrs, func(a, b kernel.NodeAddr) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()),
			strings.Compare(a.Link, b.Link))
	})
	for _, r := range s.routes {
		n.Gateways = append(n.Gateways, r.gateways...)
		if r.advertised {
			n.Advertised = append(n.Advertised, names[r.device])
		}
	}
	slices.SortFunc(n.Gateways, netip.Addr.Compare)
	n.Gateways = slices.Compact(n.Gateways)
	slices.Sort(n.Advertised)
	n.Advertised = slices.Compact(n.Advertised)
	n.Primary4 = primary(kernel.IPv4, s.routes, mine)
	n.Primary6 = primary(kernel.IPv6, s.routes, mine)
	return n
}

// bridges returns the bridges that have some of these addresses, with the bridges' own options.
func (s survey) bridges(addrs []address) []kernel.Bridge {
	var list []kernel.Bridge
	for _, d := range s.devices {
		if d.kind == "bridge" && slices.ContainsFunc(addrs, func(x address) bool { return x.index == d.index }) {
			list = append(list, kernel.Bridge{Link: d.name, Filtered4: d.calls4, Filtered6: d.calls6})
		}
	}
	kernel.SortFunc(list, func(a, b kernel.Bridge) int { return strings.Compare(a.Link, b.Link) })
	return list
}

// mtu returns kernel.Node's MTU.
func (s survey) mtu(addrs []address) int {
	const ethernet = 1500
	most := ethernet
	for _, d := range s.devices {
		if d.mtu > most && slices.ContainsFunc(addrs, func(x address) bool { return x.index == d.index }) {
			most = d.mtu
		}
	}
	if most == ethernet {
		return 0
	}
	return most
}

func (x address) isNodes() bool {
	a := x.prefix.Addr()
	if a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() {
		return false
	}
	return a.Is4() || x.flags&(unix.IFA_F_TEMPORARY|unix.IFA_F_DADFAILED) == 0
}

// primary returns the source address of packets along the default route with the lowest metric. It
// is the preferred source of the route, else an address of its device, else the first address
// anywhere. Without such a route it is invalid.
func primary(f kernel.Family, routes []route, addrs []address) netip.Addr {
	var best *route
	for i := range routes {
		if r := &routes[i]; r.family == f && (best == nil || r.metric < best.metric) {
			best = r
		}
	}
	if best == nil {
		return netip.Addr{}
	}
	if best.source.IsValid() {
		return best.source
	}
	var source netip.Addr
	most := -1
	for _, x := range addrs {
		a := x.prefix.Addr()
		if kernel.FamilyOf(a) != f || a.Is6() && x.flags&(unix.IFA_F_DEPRECATED|unix.IFA_F_TENTATIVE) != 0 {
			continue
		}
		if n := x.rank(best); n > most {
			source, most = a, n
		}
	}
	return source
}

// rank returns how well an address fits as the source of a default route.
func (x address) rank(r *route) int {
	n := 0
	if x.index == r.device {
		n += 4
	}
	if slices.ContainsFunc(r.gateways, x.prefix.Contains) {
		n += 2
	}
	// Towards the Internet a global IPv6 address precedes a unique local one (RFC 6724, rule 6).
	if a := x.prefix.Addr(); a.Is6() && !a.IsPrivate() {
		n++
	}
	return n
}
