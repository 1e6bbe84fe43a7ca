package iptables

import (
	"math"
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
)

// TestTraffic checks what must be true of packets in the state for any table.
func TestTraffic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), drawConfig(t)
		config.LocalhostNodePorts = false // what loopback reaches then, scenarios say
		modetest.Realistic(t, table, node)
		node.Primary6 = netip.MustParseAddr("2001:db8:1::1") // the source of the node's own packets
		node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(node.Primary6, 64), Link: "eth0"})
		config.VIPPing = rapid.Bool().Draw(t, "vipPing")
		config.VIPBinding = rapid.SampledFrom([]mode.VIPBinding{mode.BindAddress, mode.BindRoute}).Draw(t, "binding")
		f := frontend.List(table, node, config.Frontends)
		x := traffic{T: t, Frontends: f, config: config, state: State(f, config)}
		for i := range f.Fronts {
			x.served(&f.Fronts[i])
		}
		for _, v := range f.VIPs() {
			x.guarded(v.Addr)
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

// served traces packets to a front: from outside by two devices, and from the node.
func (x *traffic) served(f *frontend.Front) {
	p := trace.Packet{Proto: f.Key.Proto, Dst: f.Key.Addr}
	for _, in := range []string{"eth0", "veth1", ""} {
		p.In, p.Src = in, netip.AddrPort{}
		if in != "" {
			p.Src = netip.AddrPortFrom(outside(f.Key.Addr.Addr()), 40000)
		}
		want := x.expected(f, p)
		if x.unusual(f, want) {
			continue
		}
		v := x.ask(p)
		x.reaches(f, p, v, want)
		for _, w := range v.Ways {
			x.masquerades(f, p, v, w)
		}
	}
}

// expected returns the backends that packets to a front go to: under policy Local those of
// this node, but the node's own packets from addresses that are no cluster IPs go to all.
func (x *traffic) expected(f *frontend.Front, p trace.Packet) map[netip.AddrPort]uint32 {
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
func (x *traffic) reaches(f *frontend.Front, p trace.Packet, v trace.Verdict, want map[netip.AddrPort]uint32) {
	var sum uint32
	for _, w := range want {
		sum += w
	}
	allowed := !f.Traits.Has(frontend.Restricted)
	if p.In == "" {
		allowed = allowed || f.Traits.Has(frontend.NodeAllowed)
	} else {
		for _, r := range x.Service(f).SourceRanges {
			allowed = allowed || r.Contains(p.Src.Addr())
		}
	}
	switch {
	case len(want) == 0 || !allowed:
		if v.Fate != trace.Rejected && v.Fate != trace.Dropped {
			x.wrong(p, v, "nobody may get it")
		}
		return
	case v.Fate != trace.Balanced || len(v.Ways) != len(want):
		x.wrong(p, v, "want all backends")
	}
	for _, w := range v.Ways {
		weight, found := want[w.Real]
		if !found || w.Fate != trace.Balanced {
			x.wrong(p, v, w.Real.String()+" is no backend, or does not get it")
		}
		if share := float64(weight) / float64(sum); math.Abs(w.Chance-share) > 1e-8 {
			x.wrong(p, v, w.Real.String()+" has another share")
		}
	}
}

// unusual reports whether a front is of two kinds, of which a scenario says which one wins,
// or whether a backend is itself the address of a front, which kube-proxy refuses, too, if
// that has no endpoints. It is also true of a VIP that is the node's own address if a node
// port of another service has its number: if the VIP's service has no endpoints, that node
// port's answers, as with kube-proxy.
func (x *traffic) unusual(f *frontend.Front, backends map[netip.AddrPort]uint32) bool {
	for at := range backends {
		if _, served := x.Find(kernel.VirtualKey{Addr: at, Proto: f.Key.Proto}); served {
			return true
		}
	}
	if x.Node.Has(f.Key.Addr.Addr()) && slices.ContainsFunc(x.Fronts, func(o frontend.Front) bool {
		return o.Traits.Has(frontend.NodePort) && o.Service != f.Service && o.Key.Proto == f.Key.Proto && o.Key.Addr.Port() == f.Key.Addr.Port()
	}) {
		return true
	}
	kinds := f.Traits & (frontend.ClusterIP | frontend.ExternalIP | frontend.LoadBalancer | frontend.NodePort)
	return kinds&(kinds-1) != 0
}

// masquerades checks that policy Local keeps the source address. Other packets lose it,
// except those to cluster IPs.
func (x *traffic) masquerades(f *frontend.Front, p trace.Packet, v trace.Verdict, w trace.Way) {
	hairpin := p.Src.Addr() == w.Real.Addr()
	switch {
	case w.Fate != trace.Balanced || f.Traits.Has(frontend.ClusterIP):
	case f.Traits.Has(frontend.ExternalLocal) && p.In != "":
		if w.Masquerade == trace.ByMark {
			x.wrong(p, v, w.Real.String()+": policy Local keeps the source")
		}
	case w.Masquerade == trace.Kept && !hairpin && !(p.In != "" && x.onNode(w.Real.Addr())):
		x.wrong(p, v, w.Real.String()+": policy Cluster masquerades")
	}
}

func (x *traffic) onNode(a netip.Addr) bool {
	return x.Node.Has(a) || slices.ContainsFunc(x.VIPs(), func(v frontend.VIP) bool { return v.Addr == a })
}

// guarded traces packets to ports of a bound VIP that are not served. The host must answer
// none of them, except health checks.
func (x *traffic) guarded(vip netip.Addr) {
	checks := slices.Collect(x.HealthCheckPorts(kernel.FamilyOf(vip)))
	for _, proto := range []kernel.Proto{kernel.TCP, kernel.UDP, kernel.SCTP} {
		for _, port := range []uint16{1, 2, 3, 22} {
			p := trace.Packet{Proto: proto, Dst: netip.AddrPortFrom(vip, port), Src: netip.AddrPortFrom(outside(vip), 40000), In: "eth0"}
			if _, served := x.Find(kernel.VirtualKey{Addr: p.Dst, Proto: proto}); served {
				continue
			}
			want := trace.Rejected
			if proto == kernel.TCP && slices.Contains(checks, port) {
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
		x.wrong(ping, v, "vipPing is otherwise")
	}
}
