package mode

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// VIPBinding says how VIPs are made local. It is ipvs.vipBinding.
type VIPBinding string

// The bindings. The zero value means BindAuto.
const (
	BindAuto    VIPBinding = "auto"
	BindAddress VIPBinding = "address"
	BindRoute   VIPBinding = "route"
)

// MaxBound is the number of VIPs up to which BindAuto binds addresses. Adding n
// addresses costs the kernel O(n^2): 100 ms of instructions for 1,000, 2.8 s for
// 10,000. As many local routes take 165 ms.
const MaxBound = 1000

// AddVIPs adds to a state the VIPs that must be bound: an address on our device
// or a local route for each. It also adds what answers neighbour solicitations
// for IPv6 VIPs. A VIP that is announced gets a route: FRR never announces an address
// that it sees on a device.
func AddVIPs(s *kernel.State, f *frontend.Frontends, c Config) {
	vips := f.VIPs()
	routed := c.VIPBinding == BindRoute || c.VIPBinding != BindAddress && len(vips) > MaxBound
	if routed {
		s.Routes = slices.Grow(s.Routes, len(vips))
	} else {
		s.Addrs = slices.Grow(s.Addrs, len(vips))
	}
	for _, v := range vips {
		// The host's own traffic to a routed IPv6 VIP has a node address as its
		// source, which no rule for source ranges would match. Without a device there
		// is no other way.
		if (routed || v.Traits.Has(frontend.Announced)) &&
			(c.NoDevice || v.Addr.Is4() || !v.Traits.Has(frontend.Restricted)) {
			s.Routes = append(s.Routes, kernel.Route{Addr: v.Addr})
		} else {
			s.Addrs = append(s.Addrs, kernel.Addr{Addr: v.Addr, Link: c.Names.Device})
		}
		if !c.StrictARP {
			addNeighbors(s, f.Node, v.Addr)
		}
	}
}

// addNeighbors claims a VIP inside a network of this node on that network's link,
// and has an IPv6 VIP answered for there. For IPv4 the kernel answers ARP for
// every local address on every link.
func addNeighbors(s *kernel.State, n kernel.Node, vip netip.Addr) {
	for _, a := range n.Addrs {
		if a.Prefix.IsSingleIP() || !a.Prefix.Contains(vip) {
			continue
		}
		s.Policy.Claims = append(s.Policy.Claims, kernel.Claim{Addr: vip, Link: a.Link})
		if vip.Is6() {
			s.Neighbors = append(s.Neighbors, kernel.Neighbor{Addr: vip, Link: a.Link})
			s.Sysctls = append(s.Sysctls, kernel.Sysctl{Name: kernel.ProxyNDP(a.Link), Value: "1"})
		}
	}
}
