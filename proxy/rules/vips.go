package rules

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// VIPBinding is how VIPs are made local: ipvs.vipBinding.
type VIPBinding string

// The ways. The zero value is BindAuto.
const (
	BindAuto    VIPBinding = "auto"
	BindAddress VIPBinding = "address"
	BindRoute   VIPBinding = "route"
)

// MaxBound is the number of VIPs up to which BindAuto binds addresses. Adding n
// of them costs the kernel O(n^2): 100 ms of instructions for 1,000, 2.8 s for
// 10,000, where as many local routes take 165 ms.
const MaxBound = 1000

// vips are the VIPs of this node that are not addresses of it already: each an
// address on our device, or a local route, and for IPv6 what answers
// neighbour solicitations.
func (l *listing) vips(s *kernel.State) {
	vips := make([]front, 0, len(l.fronts))
	for _, f := range l.fronts {
		if f.traits&bound == 0 {
			continue
		}
		if n := len(vips); n > 0 && vips[n-1].key.Addr.Addr() == f.key.Addr.Addr() {
			vips[n-1].traits |= f.traits // another port of the same VIP
			continue
		}
		vips = append(vips, f)
	}
	routed := l.config.VIPBinding == BindRoute || l.config.VIPBinding != BindAddress && len(vips) > MaxBound
	for _, f := range vips {
		vip := f.key.Addr.Addr()
		// What the host itself sends to an IPv6 VIP that is routed has a node
		// address as its source, which no rule of source ranges would match.
		if routed && (vip.Is4() || f.traits&restricted == 0) {
			s.Routes = append(s.Routes, kernel.Route{Addr: vip})
		} else {
			s.Addrs = append(s.Addrs, kernel.Addr{Addr: vip, Link: l.config.Names.Device})
		}
		if !l.config.StrictARP {
			l.neighbors(s, vip)
		}
	}
}

// neighbors has a VIP inside a network of this node claimed on that network's
// link, and an IPv6 one answered for there. For IPv4 the kernel answers ARP for
// every local address on every link.
func (l *listing) neighbors(s *kernel.State, vip netip.Addr) {
	for _, a := range l.node.Addrs {
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
