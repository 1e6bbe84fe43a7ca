package modetest

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// PacketsAround are packets to each front, to other ports of its address and past the node. They come from outside, from a
// workload, from the node and from its loopback, in each state of connection tracking.
func PacketsAround(f *frontend.Frontends) (all []packet.Packet) {
	for i := range f.Fronts {
		k := f.Fronts[i].Key
		vip := k.Addr
		for _, port := range []uint16{k.Port, 22} {
			to := netip.AddrPortFrom(vip, port)
			from := netip.AddrPortFrom(Outside(vip), 40000)
			for _, p := range []packet.Packet{
				{}, {Established: true}, {State: "RELATED"}, {State: "RELATED", Established: true}, {State: "INVALID"}, {State: "UNTRACKED"},
			} {
				p.Proto, p.Dst = k.Proto, to
				all = append(all, p)
				p.Src, p.In = from, "veth1"
				all = append(all, p)
				p.In = "eth0"
				all = append(all, p)
				p.Dst = netip.AddrPortFrom(Outside(vip).Next(), port)
				all = append(all, p)
			}
			lo := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 40000)
			if vip.Is6() {
				lo = netip.AddrPortFrom(netip.IPv6Loopback(), 40000)
			}
			all = append(all, packet.Packet{Proto: k.Proto, Src: lo, Dst: to})
		}
		all = append(all, packet.Packet{Echo: true, Src: netip.AddrPortFrom(Outside(vip), 0), Dst: netip.AddrPortFrom(vip, 0), In: "eth0"})
	}
	return all
}
