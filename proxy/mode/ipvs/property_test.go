package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// drawAddr draws from a few addresses, so that services often share one.
func drawAddr(t *rapid.T, what string) netip.Addr {
	n := byte(rapid.IntRange(1, 12).Draw(t, what))
	if rapid.Bool().Draw(t, what+" is IPv6") {
		return netip.AddrFrom16([16]byte{0xfd, 15: n})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, n})
}

func drawAddrs(t *rapid.T, what string) []netip.Addr {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Addr { return drawAddr(t, what) }), 0, 3).Draw(t, what+"s")
}

var (
	policies  = rapid.SampledFrom([]sources.TrafficPolicy{sources.Cluster, sources.Local})
	protocols = rapid.SampledFrom([]sources.Protocol{sources.TCP, sources.UDP, sources.SCTP})
	hints     = rapid.SliceOfN(rapid.SampledFrom([]string{"n1", "n2", "a", "b"}), 0, 2)
)

// drawService draws a service that may be invalid. The properties hold for it too.
func drawService(t *rapid.T, name string) sources.Service {
	s := sources.Service{
		Namespace: "default", Name: name,
		Type:                     rapid.SampledFrom([]sources.Type{sources.ClusterIP, sources.NodePort, sources.LoadBalancer, sources.Headless}).Draw(t, "type"),
		ClusterIPs:               drawAddrs(t, "cluster IP"),
		ExternalIPs:              drawAddrs(t, "external IP"),
		SourceRanges:             rapid.SampledFrom([][]netip.Prefix{nil, {prefix("10.0.0.0/30")}, {prefix("0.0.0.0/0")}, {prefix("fd00::/120"), prefix("10.0.0.9/32")}}).Draw(t, "ranges"),
		ExternalTrafficPolicy:    policies.Draw(t, "external policy"),
		InternalTrafficPolicy:    policies.Draw(t, "internal policy"),
		Affinity:                 rapid.SampledFrom([]sources.Affinity{sources.AffinityNone, sources.AffinityClientIP}).Draw(t, "affinity"),
		AffinityTimeout:          time.Hour,
		HealthCheckNodePort:      uint16(rapid.IntRange(0, 2).Draw(t, "health check")),
		PublishNotReadyAddresses: rapid.Bool().Draw(t, "publish"),
		Scheduler:                rapid.SampledFrom([]string{"", "mh", "wrr"}).Draw(t, "scheduler"),
	}
	for _, a := range drawAddrs(t, "load balancer IP") {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, sources.VIP{Addr: a, Mode: rapid.SampledFrom([]sources.IPMode{"", sources.IPModeProxy}).Draw(t, "mode")})
	}
	if rapid.Bool().Draw(t, "drains") {
		d := time.Second
		s.DrainTimeout = &d
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "ports") {
		s.Ports = append(s.Ports, sources.Port{
			Name: fmt.Sprint(i), Protocol: protocols.Draw(t, "protocol"),
			Port: uint16(rapid.IntRange(1, 3).Draw(t, "port")), NodePort: uint16(rapid.IntRange(0, 3).Draw(t, "node port")),
		})
	}
	for _, a := range drawAddrs(t, "endpoint") {
		e := sources.Endpoint{
			Addr:     a,
			NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
			Weight:   uint32(rapid.IntRange(0, 3).Draw(t, "weight")),
			Ready:    rapid.Bool().Draw(t, "ready"), Serving: rapid.Bool().Draw(t, "serving"), Terminating: rapid.Bool().Draw(t, "terminating"),
			Cut:       rapid.IntRange(0, 4).Draw(t, "cut") == 0,
			NodeHints: hints.Draw(t, "node hints"), ZoneHints: hints.Draw(t, "zone hints"),
		}
		for _, p := range s.Ports {
			e.Ports = append(e.Ports, sources.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: uint16(rapid.IntRange(1, 3).Draw(t, "target"))})
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func drawTable(t *rapid.T) sources.Table {
	var table sources.Table
	for i := range rapid.IntRange(0, 5).Draw(t, "services") {
		table.Services = append(table.Services, drawService(t, fmt.Sprintf("s%d", i)))
	}
	return table
}

func drawNode(t *rapid.T) kernel.Node {
	n := kernel.Node{Name: "n1", Zone: "a", BrNetfilter: rapid.Bool().Draw(t, "br_netfilter"), Primary4: addr("10.0.0.1")}
	for _, a := range append(drawAddrs(t, "node address"), addr("127.0.0.1"), addr("fe80::1")) {
		n.Addrs = append(n.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(a, a.BitLen()), Link: "eth0"})
	}
	return n
}

func drawConfig(t *rapid.T) mode.Config {
	c := defaults()
	c.Frontends.IPv6 = rapid.Bool().Draw(t, "IPv6")
	c.MasqueradeAll = rapid.Bool().Draw(t, "masqueradeAll")
	c.Frontends.LocalFallback = rapid.SampledFrom([]frontend.LocalFallback{frontend.FallbackDrop, frontend.FallbackCluster}).Draw(t, "fallback")
	c.Frontends.LocalCIDRs = rapid.SampledFrom([][]netip.Prefix{nil, {prefix("10.0.0.0/29")}}).Draw(t, "local CIDRs")
	c.Frontends.NodePortPrimary = rapid.Bool().Draw(t, "primary")
	return c
}

// TestProperties checks what must be true of the state for any table.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := drawTable(t), drawNode(t), drawConfig(t)
		s := stateOf(table, node, config)
		if again := stateOf(table, node, config); again.String() != s.String() {
			t.Fatalf("two answers:\n%s\n%s", s, again)
		}
		sorted := kernel.State{
			Sysctls: slices.Clone(s.Sysctls), Sets: slices.Clone(s.Sets), Entries: slices.Clone(s.Entries),
			Chains: slices.Clone(s.Chains), Links: slices.Clone(s.Links), Virtuals: slices.Clone(s.Virtuals),
			Reals: slices.Clone(s.Reals), Addrs: slices.Clone(s.Addrs), Policy: s.Policy,
		}
		sorted.Sort()
		if sorted.String() != s.String() {
			t.Fatalf("not sorted, or duplicates:\n%s", s)
		}
		read, err := kernel.ParseObserved(s.String())
		if err != nil || read.State.String() != s.String() {
			t.Fatalf("does not read back: %v\n%s", err, s)
		}
		checkOwnership(t, s, config)
		checkBound(t, s, config, node)
		checkReals(t, s, table, node)
		checkCut(t, s, frontend.List(table, node, config.Frontends))
		if n := len(s.Sets); n != len(config.Frontends.Families())*len(kernel.SetSpecs) {
			t.Fatalf("%d sets", n)
		}
	})
}

// checkOwnership checks that the ownership set has exactly the virtual servers, that
// none is on an unusable address, and that all entries are of existing sets.
func checkOwnership(t *rapid.T, s kernel.State, c mode.Config) {
	var owned []kernel.VirtualKey
	for _, e := range s.Entries {
		if !slices.ContainsFunc(s.Sets, func(x kernel.Set) bool { return x.Name == e.Set }) {
			t.Fatalf("no set for %s", e)
		}
		if e.Set == c.Names.Set(kernel.IPv4, kernel.VirtualServer) || e.Set == c.Names.Set(kernel.IPv6, kernel.VirtualServer) {
			owned = append(owned, e.Key())
		}
	}
	slices.SortFunc(owned, kernel.VirtualKey.Compare)
	var made []kernel.VirtualKey
	for _, v := range s.Virtuals {
		made = append(made, v.Key)
		if a := v.Key.Addr.Addr(); !a.IsGlobalUnicast() || a.Is6() && !c.Frontends.IPv6 {
			t.Fatalf("virtual server on %s", a)
		}
	}
	if !slices.Equal(owned, made) {
		t.Fatalf("owned %v\nmade %v", owned, made)
	}
}

// checkBound checks that every bound address has a virtual server, is in
// KUBE-IPVS-IPS and is not the node's own.
func checkBound(t *rapid.T, s kernel.State, c mode.Config, n kernel.Node) {
	ips := 0
	for _, e := range s.Entries {
		if e.Set == c.Names.Set(kernel.IPv4, kernel.IPVSIPs) || e.Set == c.Names.Set(kernel.IPv6, kernel.IPVSIPs) {
			ips++
		}
	}
	if ips != len(s.Addrs) {
		t.Fatalf("%d addresses bound, %d in the set", len(s.Addrs), ips)
	}
	for _, a := range s.Addrs {
		if !slices.ContainsFunc(s.Virtuals, func(v kernel.Virtual) bool { return v.Key.Addr.Addr() == a.Addr }) {
			t.Fatalf("%s bound and not served", a.Addr)
		}
		if slices.ContainsFunc(n.Addrs, func(x kernel.NodeAddr) bool { return x.Prefix.Addr() == a.Addr }) {
			t.Fatalf("%s is the node's own", a.Addr)
		}
	}
}

// checkReals checks that every real server has a virtual server of its own family
// and is a usable endpoint of the table.
func checkReals(t *rapid.T, s kernel.State, table sources.Table, n kernel.Node) {
	for _, r := range s.Reals {
		if !slices.ContainsFunc(s.Virtuals, func(v kernel.Virtual) bool { return v.Key == r.Key.Virtual }) {
			t.Fatalf("no virtual server for %s", r)
		}
		if kernel.FamilyOf(r.Key.Addr.Addr()) != r.Key.Virtual.Family() {
			t.Fatalf("%s crosses families", r)
		}
		if !slices.ContainsFunc(table.Services, func(svc sources.Service) bool {
			return slices.ContainsFunc(svc.Endpoints, func(e sources.Endpoint) bool {
				return e.Addr == r.Key.Addr.Addr() && !e.Cut && (e.Ready || svc.PublishNotReadyAddresses || e.Serving && e.Terminating)
			})
		}) {
			t.Fatalf("%s is no service's usable endpoint", r)
		}
	}
}

// checkCut checks that the policy names the real servers of every cut endpoint, in
// each of its service's virtual servers of its family.
func checkCut(t *rapid.T, s kernel.State, f *frontend.Frontends) {
	var want []kernel.RealKey
	for i := range f.Fronts {
		x := &f.Fronts[i]
		port := f.Service(x).Ports[x.Port]
		for _, e := range f.Service(x).Endpoints {
			for _, own := range e.Ports {
				if e.Cut && own.Name == port.Name && kernel.FamilyOf(e.Addr) == x.Key.Family() {
					want = append(want, kernel.RealKey{Virtual: x.Key, Addr: netip.AddrPortFrom(e.Addr, own.Port)})
				}
			}
		}
	}
	slices.SortFunc(want, kernel.RealKey.Compare)
	if want = slices.Compact(want); !slices.Equal(s.Policy.Cut, want) {
		t.Fatalf("cut\n%v\nwant\n%v", s.Policy.Cut, want)
	}
}

// Ten services and a thousand have the same rules. Only source ranges that exclude
// the node itself need one rule per VIP:port.
func TestRulesDoNotGrow(t *testing.T) {
	few, many := stateOf(big(10, 3), kernel.Node{Name: "n1"}, defaults()), stateOf(big(1000, 3), kernel.Node{Name: "n1"}, defaults())
	if !slices.Equal(few.Chains, many.Chains) {
		t.Error("chains differ between 10 and 1000 services")
	}
}
