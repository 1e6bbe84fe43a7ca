package modetest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// tracedServices have every kind of address and policy. pod1 is on this node, n1.
const tracedServices = `
[services.web]
type = "LoadBalancer"
clusterIPs = ["10.96.0.20", "fd00:96::20"]
externalIPs = ["203.0.113.9"]
loadBalancerIPs = ["198.51.100.80"]
loadBalancerSourceRanges = ["192.0.2.0/24"]
ports = [ { port = 80, nodePort = 30080, targetPort = 7000 } ]
endpoints = [ { address = "10.2.1.10", nodeName = "n1", weight = 2 }, { address = "10.2.2.10", nodeName = "n2" }, "fd00:2:1::10", "fd00:2:2::10" ]
[services.local]
type = "LoadBalancer"
clusterIP = "10.96.0.21"
loadBalancerIPs = ["198.51.100.81"]
externalTrafficPolicy = "Local"
ports = [ { port = 80, nodePort = 30081, targetPort = 7000 } ]
endpoints = [ { address = "10.2.1.10", nodeName = "n1" }, { address = "10.2.2.10", nodeName = "n2" } ]
[services.elsewhere]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.82"]
externalTrafficPolicy = "Local"
ports = [ { port = 80, targetPort = 7000 } ]
endpoints = [ { address = "10.2.2.10", nodeName = "n2" } ]
[services.sticky]
clusterIP = "10.96.0.22"
sessionAffinity = "ClientIP"
ports = [ { port = 80, targetPort = 7000 } ]
endpoints = ["10.2.1.10", "10.2.2.10", "10.2.3.10"]
[services.none]
clusterIPs = ["10.96.0.23", "fd00:96::23"]
ports = [ { port = 80 } ]
`

// Sent sends packets through a lab whose node has the state of a mode.
type Sent struct {
	*testing.T
	*lab.Lab
	Facts  kernel.Node
	Fronts *frontend.Frontends
	State  kernel.State
}

// NewSent returns what the node of a lab serves; it has no state yet.
func NewSent(t *testing.T, l *lab.Lab) *Sent {
	t.Helper()
	x := &Sent{T: t, Lab: l}
	table, _, problems := file.Decode("services.toml", []byte(tracedServices))
	for _, p := range problems {
		x.Fatal(p)
	}
	table, _ = sources.Merge(sources.HostFacts{}, table)
	x.Facts = kernel.Node{Name: "n1", Primary4: x.Node.V4, Primary6: x.Node.V6}
	for _, a := range []string{"192.0.2.1/24", "10.2.1.1/24", "10.2.2.1/24", "10.2.3.1/24", "2001:db8::1/64", "fd00:2:1::1/64", "fd00:2:2::1/64", "fd00:2:3::1/64"} {
		x.Facts.Addrs = append(x.Facts.Addrs, kernel.NodeAddr{Prefix: netip.MustParsePrefix(a), Link: "any"})
	}
	x.Fronts = frontend.List(table, x.Facts, Defaults().Frontends)
	return x
}

// Bind makes the VIPs of the state local, and lets the node forward.
func (x *Sent) Bind() {
	x.Helper()
	run := func(name string, args ...string) {
		if out, err := x.Node.Run(name, args...); err != nil {
			x.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for _, r := range x.State.Routes {
		run("ip", "route", "add", "local", r.Addr.String(), "dev", "lo")
	}
}

// AskAll connects to each address, and to a port of each VIP that is not served.
func (x *Sent) AskAll() {
	x.Helper()
	for i := range x.Fronts.Fronts {
		x.ask(x.Fronts.Fronts[i].Key.AddrPort())
	}
	for _, v := range x.Fronts.VIPs() {
		x.ask(netip.AddrPortFrom(v.Addr, 8080))
	}
}

// ask connects from three hosts and compares each time with the trace.
func (x *Sent) ask(to netip.AddrPort) {
	x.Helper()
	for _, from := range []struct {
		*lab.Host
		in string
	}{{x.Client, "uplink"}, {x.Node, ""}, {x.Backend("pod1").Host, "pod1"}} {
		p := packet.Packet{Proto: kernel.TCP, Dst: to, In: from.in}
		if from.in != "" {
			p.Src = netip.AddrPortFrom(from.Addr(to.Addr()), 40000)
		}
		v, err := packet.Trace(x.State, x.Facts, p)
		if err != nil {
			x.Fatal(err)
		}
		if v.Fate == packet.Rejected && to.Addr().Is6() && from.Host != x.Client {
			continue
		}
		for range 6 {
			if got, ok := x.agrees(from.Host, p, v); !ok {
				x.Errorf("%s: traced as %q, and then %s\n%s", p, v, got, strings.Join(v.Steps, "\n"))
				break
			}
			if v.Fate != packet.Balanced {
				break // to hear nothing takes 0.3 s, and TCP hears a refusal over IPv6 after 1 s
			}
		}
	}
}

// agrees connects once and reports whether that is what the verdict says.
func (x *Sent) agrees(from *lab.Host, p packet.Packet, v packet.Verdict) (got string, ok bool) {
	if v.Fate == packet.Dropped {
		err := from.Try(netip.Addr{}, p.Dst, 300*time.Millisecond)
		return fmt.Sprint(err), err != nil && !strings.Contains(err.Error(), "refused")
	}
	a, err := from.Ask("tcp", p.Dst)
	if v.Fate != packet.Balanced || err != nil {
		return fmt.Sprint(a, err), v.Fate == packet.Rejected && err != nil && strings.Contains(err.Error(), "refused")
	}
	for _, w := range v.Ways {
		if pod := x.Backend(a.Backend); pod == nil || pod.Addr(w.Real.Addr()) != w.Real.Addr() {
			continue
		}
		kept := a.Client.Addr() == p.Src.Addr()
		return fmt.Sprint(a), p.In != "" && kept == (w.Masquerade == packet.Kept) || !kept && x.Facts.Has(a.Client.Addr())
	}
	return fmt.Sprint(a), false
}
