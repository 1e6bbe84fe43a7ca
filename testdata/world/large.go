package world

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// Large is a state of so many virtual servers with so many real servers each. Each VIP
// is bound and in its sets.
func Large(virtuals, reals int) kernel.State {
	var s kernel.State
	n := kernel.DefaultNames
	for _, spec := range kernel.SetSpecs {
		for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
			s.Sets = append(s.Sets, kernel.Set{Name: n.Set(f, spec.Name), Type: spec.Type, Family: f, MaxElem: kernel.Capacity(virtuals * reals)})
		}
	}
	var all []kernel.Real
	var entries []kernel.Entry
	for i := range virtuals {
		vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		k := kernel.VirtualKey{Addr: vip, Port: 80, Proto: kernel.TCP}
		s.Virtuals = append(s.Virtuals, kernel.Virtual{Key: k, Scheduler: "rr", Netmask: 32})
		for _, set := range []kernel.SetName{kernel.ClusterIP, kernel.VirtualServer} {
			entries = append(entries, kernel.Entry{Set: n.Set(kernel.IPv4, set), Addr: vip, Proto: kernel.TCP, Port: 80})
		}
		entries = append(entries, kernel.Entry{Set: n.Set(kernel.IPv4, kernel.IPVSIPs), Addr: vip})
		s.Addrs = append(s.Addrs, kernel.Addr{Addr: vip, Link: n.Device})
		for j := range reals {
			all = append(all, kernel.Real{Key: kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, byte(j), byte(i >> 8), byte(i)}), 8080)}, Weight: 1})
		}
	}
	s.Reals, s.Entries = kernel.RealsOf(all), kernel.EntriesOf(entries)
	s.Sort()
	return s
}
