package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/trace"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/modetest"
	"github.com/svcproxy/svcproxy/sources"
)

// TestTraffic checks what must be true of packets in the state for any table.
func TestTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), modetest.DrawConfig(t)
		modetest.Realistic(t, table, node)
		node.Primary6 = addr("2001:db8:1::1") // the source of the node's own packets
		node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(node.Primary6, 64), Link: "eth0"})
		config.VIPPing = rapid.Bool().Draw(t, "vipPing")
		config.VIPBinding = rapid.SampledFrom([]mode.VIPBinding{mode.BindAddress, mode.BindRoute}).Draw(t, "binding")
		f := frontend.List(table, node, config.Frontends)
		x := traffic{T: t, Frontends: f, config: config, state: State(f, config)}
		for i := range f.Fronts {
			x.served(&f.Fronts[i])
		}
		for _, a := range x.state.Addrs {
			x.guarded(a.Addr)
		}
		for _, r := range x.state.Routes {
			x.guarded(r.Addr)
		}
	})
}

// traffic traces packets in one state.
type traffic struct {
	*rapid.T
	*frontend.Frontends
	config mode.Config
	state  kernel.State
}

// outside returns a source address that no random table has.
func outside(of netip.Addr) netip.Addr {
	if of.Is4() {
		return netip.MustParseAddr("192.0.2.9")
	}
	return netip.MustParseAddr("2001:db8::9")
}

func (x *traffic) ask(p trace.Packet) trace.Verdict {
	v, err := trace.Trace(x.state, x.Node, p)
	if err != nil {
		x.Fatalf("%v\n%s", err, strings.Join(v.Steps, "\n"))
	}
	return v
}

// wrong fails with a verdict and the steps that led to it.
func (x *traffic) wrong(p trace.Packet, v trace.Verdict, why string) {
	x.Fatalf("%s: %s: %s\n%s", p, v, why, strings.Join(v.Steps, "\n"))
}

// served traces packets to a front: from outside, from the node and from its
// loopback.
func (x *traffic) served(f *frontend.Front) {
	p := trace.Packet{Proto: f.Key.Proto, Dst: f.Key.Addr}
	for _, in := range []string{"eth0", "veth1", ""} {
		p.In, p.Src = in, netip.AddrPort{}
		if in != "" {
			p.Src = netip.AddrPortFrom(outside(f.Key.Addr.Addr()), 40000)
		}
		v := x.ask(p)
		x.reaches(f, p, v)
		for _, w := range v.Ways {
			x.masquerades(f, p, v, w)
		}
	}
	p.Src = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 40000)
	if p.Dst.Addr().Is6() {
		p.Src = netip.AddrPortFrom(netip.IPv6Loopback(), 40000)
	}
	v := x.ask(p)
	if slices.ContainsFunc(v.Ways, func(w trace.Way) bool { return w.Masquerade != trace.Kept }) {
		x.wrong(p, v, "loopback is never masqueraded")
	}
}

// reaches checks that allowed sources reach the real servers, or are refused if there
// are none, and that no packet reaches the host's own port.
func (x *traffic) reaches(f *frontend.Front, p trace.Packet, v trace.Verdict) {
	usable := slices.ContainsFunc(x.Backends(f), func(b frontend.Backend) bool { return x.Weight(int(f.Service), b) > 0 })
	allowed := !f.Traits.Has(frontend.Restricted)
	if p.In == "" {
		allowed = allowed || f.Traits.Has(frontend.NodeAllowed)
	} else {
		for _, r := range x.Service(f).SourceRanges {
			allowed = allowed || r.Contains(p.Src.Addr())
		}
	}
	want := trace.Balanced
	switch {
	case !usable && (allowed || p.In == ""): // the node's own packets are refused before they are filtered
		want = trace.Refused
	case !allowed && p.In == "" && slices.Contains([]sources.Forward{sources.IPIP, sources.GUE}, x.Forward(f)) && x.leadsAway(f):
		// No rule sees it inside its tunnel. It has the VIP as its source, so no answer comes back.
	case !allowed:
		want = trace.Dropped
	}
	if v.Fate != want {
		x.wrong(p, v, "want "+want.String())
	}
}

// leadsAway reports whether a backend of a front is on another node.
func (x *traffic) leadsAway(f *frontend.Front) bool {
	return slices.ContainsFunc(x.Backends(f), func(b frontend.Backend) bool {
		i := int(f.Service)
		return x.Weight(i, b) > 0 && !x.onNode(x.Addr(i, b).Addr())
	})
}

// masquerades checks that policy Local keeps the source address, and so does every
// method but masquerading. Other packets lose it, except those to cluster IPs and those
// that stay on the node.
func (x *traffic) masquerades(f *frontend.Front, p trace.Packet, v trace.Verdict, w trace.Way) {
	hairpin := p.Src.Addr() == w.Real.Addr()
	switch {
	case f.Traits.Has(frontend.Unmasqueraded) != (w.Forward != kernel.Masquerade):
		x.wrong(p, v, fmt.Sprintf("%s is reached by %d", w.Real, w.Forward))
	case f.Traits.Has(frontend.Unmasqueraded):
		if w.Masquerade != trace.Kept {
			x.wrong(p, v, fmt.Sprintf("%s: a packet that stays unchanged keeps its source", w.Real))
		}
	case w.Fate != trace.Balanced || f.Traits.Has(frontend.ClusterIP):
	case f.Traits.Has(frontend.ExternalLocal):
		if w.Masquerade == trace.ByMark {
			x.wrong(p, v, fmt.Sprintf("%s: policy Local keeps the source", w.Real))
		}
	case w.Masquerade == trace.Kept && !hairpin && (p.In == "" || !x.onNode(w.Real.Addr())):
		x.wrong(p, v, fmt.Sprintf("%s: policy Cluster masquerades", w.Real))
	}
}

func (x *traffic) onNode(a netip.Addr) bool {
	return x.Node.Has(a) || slices.ContainsFunc(x.state.Addrs, func(b kernel.Addr) bool { return b.Addr == a }) ||
		slices.Contains(x.state.Routes, kernel.Route{Addr: a})
}

// guarded traces packets to ports of a bound VIP that are not served. The host must
// answer none of them, except health checks.
func (x *traffic) guarded(vip netip.Addr) {
	for _, proto := range []kernel.Proto{kernel.TCP, kernel.UDP, kernel.SCTP} {
		for _, port := range []uint16{1, 2, 3, 22} {
			p := trace.Packet{Proto: proto, Dst: netip.AddrPortFrom(vip, port), Src: netip.AddrPortFrom(outside(vip), 40000), In: "eth0"}
			if slices.ContainsFunc(x.state.Virtuals, func(v kernel.Virtual) bool { return v.Key.Addr == p.Dst && v.Key.Proto == proto }) {
				continue
			}
			check := proto != kernel.SCTP && slices.Contains(x.state.Entries, kernel.Entry{
				Set: x.config.Names.Set(kernel.FamilyOf(vip), kernel.HealthCheckNodePort), Port: port,
			})
			want := trace.Rejected
			if check {
				want = trace.Host
			}
			if v := x.ask(p); v.Fate != want {
				x.wrong(p, v, "want "+want.String())
			}
			p.In, p.Src = "", netip.AddrPort{}
			if v := x.ask(p); v.Fate != want {
				x.wrong(p, v, "want "+want.String())
			}
		}
	}
	ping := trace.Packet{Echo: true, Src: netip.AddrPortFrom(outside(vip), 0), Dst: netip.AddrPortFrom(vip, 0), In: "eth0"}
	if v := x.ask(ping); (v.Fate == trace.Host) != x.config.VIPPing {
		x.wrong(ping, v, fmt.Sprintf("vipPing is %t", x.config.VIPPing))
	}
}
