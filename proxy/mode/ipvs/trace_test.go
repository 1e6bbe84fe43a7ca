package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// traffic checks packets in one state.
type traffic struct{ modetest.Traffic }

// TestTraffic checks what must be true of packets in the state for any table.
func TestTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := traffic{modetest.DrawTraffic(t, modetest.DrawConfig(t), State)}
		for i := range x.Fronts {
			x.served(&x.Fronts[i])
		}
		for _, a := range x.State.Addrs {
			x.Guarded(a.Addr, kernel.TCP, kernel.UDP)
		}
		for _, r := range x.State.Routes {
			x.Guarded(r.Addr, kernel.TCP, kernel.UDP)
		}
	})
}

// served traces packets to a front: from outside, from the node and from its
// loopback.
func (x *traffic) served(f *frontend.Front) {
	for _, p := range modetest.Packets(f) {
		v := x.Ask(p)
		x.reaches(f, p, v)
		for _, w := range v.Ways {
			x.masquerades(f, p, v, w)
		}
	}
	p := packet.Packet{Proto: f.Key.Proto, Dst: f.Key.AddrPort(), Src: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 40000)}
	if p.Dst.Addr().Is6() {
		p.Src = netip.AddrPortFrom(netip.IPv6Loopback(), 40000)
	}
	v := x.Ask(p)
	if slices.ContainsFunc(v.Ways, func(w packet.Way) bool { return w.Masquerade != packet.Kept }) {
		x.Wrong(p, v, "loopback is never masqueraded")
	}
}

// reaches checks that allowed sources reach the real servers, or are refused if there
// are none, and that no packet reaches the host's own port.
func (x *traffic) reaches(f *frontend.Front, p packet.Packet, v packet.Verdict) {
	usable := slices.ContainsFunc(x.Backends(f), func(b frontend.Backend) bool { return x.Weight(int(f.Service), b) > 0 })
	allowed := x.Allowed(f, p)
	want := packet.Balanced
	switch {
	case !usable && (allowed || p.In == ""): // the node's own packets are refused before they are filtered
		want = packet.Refused
	case !allowed && p.In == "" && slices.Contains([]sources.Forward{sources.IPIP, sources.GUE}, x.Forward(f)) && x.leadsAway(f):
		// No rule sees it inside its tunnel. It has the VIP as its source, so no answer comes back.
	case !allowed:
		want = packet.Dropped
	}
	if v.Fate != want {
		x.Wrong(p, v, "want "+want.String())
	}
}

// leadsAway reports whether a backend of a front is on another node.
func (x *traffic) leadsAway(f *frontend.Front) bool {
	return slices.ContainsFunc(x.Backends(f), func(b frontend.Backend) bool {
		i := int(f.Service)
		return x.Weight(i, b) > 0 && !x.OnNode(x.Addr(i, b).Addr())
	})
}

// masquerades checks that policy Local keeps the source address, and so does every
// method but masquerading. Other packets lose it, except those to cluster IPs and those
// that stay on the node.
func (x *traffic) masquerades(f *frontend.Front, p packet.Packet, v packet.Verdict, w packet.Way) {
	hairpin := p.Src.Addr() == w.Real.Addr()
	switch {
	case f.Traits.Has(frontend.Unmasqueraded) != (w.Forward != kernel.Masquerade):
		x.Wrong(p, v, fmt.Sprintf("%s is reached by %d", w.Real, w.Forward))
	case f.Traits.Has(frontend.Unmasqueraded):
		if w.Masquerade != packet.Kept {
			x.Wrong(p, v, fmt.Sprintf("%s: a packet that stays unchanged keeps its source", w.Real))
		}
	case w.Fate != packet.Balanced || f.Traits.Has(frontend.ClusterIP):
	case f.Traits.Has(frontend.ExternalLocal):
		if w.Masquerade == packet.ByMark {
			x.Wrong(p, v, fmt.Sprintf("%s: policy Local keeps the source", w.Real))
		}
	case w.Masquerade == packet.Kept && !hairpin && (p.In == "" || !x.OnNode(w.Real.Addr())):
		x.Wrong(p, v, fmt.Sprintf("%s: policy Cluster masquerades", w.Real))
	}
}
