package modetest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// Traffic traces packets in a mode's state of one table.
type Traffic struct {
	*rapid.T
	*frontend.Frontends
	Config mode.Config
	State  kernel.State
}

// DrawTraffic draws a table and a node, and returns what a mode makes of them.
func DrawTraffic(t *rapid.T, config mode.Config, state func(*frontend.Frontends, mode.Config) kernel.State) Traffic {
	table, node := DrawTable(t), DrawNode(t)
	Realistic(t, table, node)
	node.Primary6 = netip.MustParseAddr("2001:db8:1::1") // the source of the node's own packets
	node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(node.Primary6, 64), Link: "eth0"})
	// A front that two services claim is decided before a mode sees it.
	table, _ = sources.Merge(onNode(node), table)
	config.VIPPing = rapid.Bool().Draw(t, "vipPing")
	config.VIPBinding = rapid.SampledFrom([]mode.VIPBinding{mode.BindAddress, mode.BindRoute}).Draw(t, "binding")
	f := frontend.List(table, node, config.Frontends)
	return Traffic{T: t, Frontends: f, Config: config, State: state(f, config)}
}

// Outside returns a source address of a family that no random table has.
func Outside(of netip.Addr) netip.Addr {
	if of.Is4() {
		return netip.MustParseAddr("192.0.2.9")
	}
	return netip.MustParseAddr("2001:db8::9")
}

// Packets returns packets to a front: from outside by two devices, and from the node.
func Packets(f *frontend.Front) []packet.Packet {
	p := packet.Packet{Proto: f.Key.Proto, Dst: f.Key.AddrPort()}
	all := []packet.Packet{p, p, p}
	for i, in := range []string{"eth0", "veth1"} {
		all[i].In, all[i].Src = in, netip.AddrPortFrom(Outside(f.Key.Addr), 40000)
	}
	return all
}

// Ask traces a packet.
func (x *Traffic) Ask(p packet.Packet) packet.Verdict {
	v, err := packet.Trace(x.State, x.Node, p)
	if err != nil {
		x.Fatalf("%v\n%s", err, strings.Join(v.Steps, "\n"))
	}
	return v
}

// Wrong fails with a verdict and the steps that led to it.
func (x *Traffic) Wrong(p packet.Packet, v packet.Verdict, why string) {
	x.Fatalf("%s: %s: %s\n%s", p, v, why, strings.Join(v.Steps, "\n"))
}

// Allowed reports whether a front's source ranges allow a packet.
func (x *Traffic) Allowed(f *frontend.Front, p packet.Packet) bool {
	switch {
	case !f.Traits.Has(frontend.Restricted):
		return true
	case p.In == "":
		return f.Traits.Has(frontend.NodeAllowed)
	}
	return slices.ContainsFunc(x.Service(f).SourceRanges, func(r netip.Prefix) bool { return r.Contains(p.Src.Addr()) })
}

// OnNode reports whether an address is the node's own or a VIP.
func (x *Traffic) OnNode(a netip.Addr) bool {
	return x.Node.Has(a) || slices.ContainsFunc(x.VIPs(), func(v frontend.VIP) bool { return v.Addr == a })
}

// Guarded traces packets to ports of a VIP that are not served. The host must answer none
// of them, except health checks by the given protocols, and pings if they are allowed.
func (x *Traffic) Guarded(vip netip.Addr, checkedBy ...kernel.Proto) {
	checks := slices.Collect(x.HealthCheckPorts(kernel.FamilyOf(vip)))
	for _, proto := range []kernel.Proto{kernel.TCP, kernel.UDP, kernel.SCTP} {
		for _, port := range []uint16{1, 2, 3, 22} {
			p := packet.Packet{Proto: proto, Dst: netip.AddrPortFrom(vip, port), Src: netip.AddrPortFrom(Outside(vip), 40000), In: "eth0"}
			if _, served := x.Find(kernel.VirtualAt(p.Dst, proto)); served {
				continue
			}
			want := packet.Rejected
			if slices.Contains(checkedBy, proto) && slices.Contains(checks, port) {
				want = packet.Host
			}
			if v := x.Ask(p); v.Fate != want {
				x.Wrong(p, v, "want "+want.String())
			}
			p.In, p.Src = "", netip.AddrPort{}
			if v := x.Ask(p); v.Fate != want {
				x.Wrong(p, v, "want "+want.String())
			}
		}
	}
	ping := packet.Packet{Echo: true, Src: netip.AddrPortFrom(Outside(vip), 0), Dst: netip.AddrPortFrom(vip, 0), In: "eth0"}
	if v := x.Ask(ping); (v.Fate == packet.Host) != x.Config.VIPPing {
		x.Wrong(ping, v, fmt.Sprintf("vipPing is %t", x.Config.VIPPing))
	}
}
