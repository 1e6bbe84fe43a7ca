package iptables

import (
	"math"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// traffic checks packets in one state.
type traffic struct{ modetest.Traffic }

// TestTraffic checks what must be true of packets in the state for any table.
func TestTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := drawConfig(t)
		config.LocalhostNodePorts = false // what loopback reaches then, scenarios say
		x := traffic{modetest.DrawTraffic(t, config, State)}
		for i := range x.Fronts {
			x.served(&x.Fronts[i])
		}
		for _, v := range x.VIPs() {
			x.Guarded(v.Addr, kernel.TCP)
		}
	})
}

// served traces packets to a front: from outside by two devices, and from the node.
func (x *traffic) served(f *frontend.Front) {
	for _, p := range modetest.Packets(f) {
		want := x.expected(f, p)
		if x.unusual(f, want) {
			continue
		}
		v := x.Ask(p)
		x.reaches(f, p, v, want)
		for _, w := range v.Ways {
			x.masquerades(f, p, v, w)
		}
	}
}

// expected returns the backends that packets to a front go to: under policy Local those of
// this node, but the node's own packets from addresses that are no cluster IPs go to all.
func (x *traffic) expected(f *frontend.Front, p packet.Packet) map[netip.AddrPort]uint32 {
	want := x.usable(f, x.Backends(f))
	if p.In == "" && f.Traits.Has(frontend.ExternalLocal) {
		if all := x.usable(f, x.Anywhere(f)); len(all) > 0 {
			return all
		}
	}
	return want
}

// usable returns the weights of those backends that get new connections.
func (x *traffic) usable(f *frontend.Front, backends []frontend.Backend) map[netip.AddrPort]uint32 {
	want := make(map[netip.AddrPort]uint32)
	for _, b := range backends {
		if w := x.Weight(int(f.Service), b); w > 0 {
			want[x.Addr(int(f.Service), b)] = w
		}
	}
	return want
}

// reaches checks that allowed sources reach each wanted backend by its share, and that no
// packet reaches the host's own port.
func (x *traffic) reaches(f *frontend.Front, p packet.Packet, v packet.Verdict, want map[netip.AddrPort]uint32) {
	var sum uint32
	for _, w := range want {
		sum += w
	}
	switch {
	case len(want) == 0 || !x.Allowed(f, p):
		if v.Fate != packet.Rejected && v.Fate != packet.Dropped {
			x.Wrong(p, v, "nobody may get it")
		}
		return
	case v.Fate != packet.Balanced || len(v.Ways) != len(want):
		x.Wrong(p, v, "want all backends")
	}
	for _, w := range v.Ways {
		weight, found := want[w.Real]
		if !found || w.Fate != packet.Balanced {
			x.Wrong(p, v, w.Real.String()+" is no backend, or does not get it")
		}
		if share := float64(weight) / float64(sum); math.Abs(w.Chance-share) > 1e-8 {
			x.Wrong(p, v, w.Real.String()+" has another share")
		}
	}
}

// unusual reports whether the checks do not hold for a front. There are three kinds:
//
//   - It is of two kinds at once: a scenario says which one wins.
//   - A backend is itself the address of a front: kube-proxy refuses it, too, if that front has no endpoints.
//   - The VIP is the node's own address, and a node port of another service has its number. If the VIP's service has no
//     endpoints, that node port's answer, as with kube-proxy.
func (x *traffic) unusual(f *frontend.Front, backends map[netip.AddrPort]uint32) bool {
	for at := range backends {
		if _, served := x.Find(kernel.VirtualAt(at, f.Key.Proto)); served {
			return true
		}
	}
	if x.Node.Has(f.Key.Addr) && slices.ContainsFunc(x.Fronts, func(o frontend.Front) bool {
		return o.Traits.Has(frontend.NodePort) && o.Service != f.Service && o.Key.Proto == f.Key.Proto && o.Key.Port == f.Key.Port
	}) {
		return true
	}
	kinds := f.Traits & (frontend.ClusterIP | frontend.ExternalIP | frontend.LoadBalancer | frontend.NodePort)
	return kinds&(kinds-1) != 0
}

// masquerades checks that policy Local keeps the source address. Other packets lose it,
// except those to cluster IPs.
func (x *traffic) masquerades(f *frontend.Front, p packet.Packet, v packet.Verdict, w packet.Way) {
	hairpin := p.Src.Addr() == w.Real.Addr()
	switch {
	case w.Fate != packet.Balanced || f.Traits.Has(frontend.ClusterIP):
	case f.Traits.Has(frontend.ExternalLocal) && p.In != "":
		if w.Masquerade == packet.ByMark {
			x.Wrong(p, v, w.Real.String()+": policy Local keeps the source")
		}
	case w.Masquerade == packet.Kept && !hairpin && !(p.In != "" && x.OnNode(w.Real.Addr())):
		x.Wrong(p, v, w.Real.String()+": policy Cluster masquerades")
	}
}
