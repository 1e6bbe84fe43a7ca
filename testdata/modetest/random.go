package modetest

import (
	"fmt"
	"net/netip"
	"slices"
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

// DrawService draws a service that may be invalid. The properties hold for it too.
func DrawService(t *rapid.T, name string) sources.Service {
	s := sources.Service{
		Namespace: "default", Name: name,
		Type:                     rapid.SampledFrom([]sources.Type{sources.ClusterIP, sources.NodePort, sources.LoadBalancer, sources.Headless}).Draw(t, "type"),
		ClusterIPs:               drawAddrs(t, "cluster IP"),
		ExternalIPs:              drawAddrs(t, "external IP"),
		SourceRanges:             rapid.SampledFrom([][]netip.Prefix{nil, {netip.MustParsePrefix("10.0.0.0/30")}, {netip.MustParsePrefix("0.0.0.0/0")}, {netip.MustParsePrefix("fd00::/120"), netip.MustParsePrefix("10.0.0.9/32")}}).Draw(t, "ranges"),
		ExternalTrafficPolicy:    policies.Draw(t, "external policy"),
		InternalTrafficPolicy:    policies.Draw(t, "internal policy"),
		Affinity:                 rapid.SampledFrom([]sources.Affinity{sources.AffinityNone, sources.AffinityClientIP}).Draw(t, "affinity"),
		AffinityTimeout:          time.Hour,
		HealthCheckNodePort:      uint16(rapid.IntRange(0, 2).Draw(t, "health check")),
		PublishNotReadyAddresses: rapid.Bool().Draw(t, "publish"),
		Scheduler:                rapid.SampledFrom([]string{"", "mh", "wrr"}).Draw(t, "scheduler"),
		Forward:                  rapid.SampledFrom([]sources.Forward{"", "", sources.Masquerade, sources.Direct, sources.GUE}).Draw(t, "forward"),
	}
	for _, a := range drawAddrs(t, "load balancer IP") {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, sources.VIP{Addr: a, Mode: rapid.SampledFrom([]sources.IPMode{"", sources.IPModeProxy}).Draw(t, "mode")})
	}
	if rapid.Bool().Draw(t, "drains") {
		d := time.Second
		s.DrainTimeout = &d
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "ports") {
		port := uint16(rapid.IntRange(1, 3).Draw(t, "port"))
		s.Ports = append(s.Ports, sources.Port{
			Name: fmt.Sprint(i), Protocol: protocols.Draw(t, "protocol"),
			Port: port, TargetPort: port, NodePort: uint16(rapid.IntRange(0, 3).Draw(t, "node port")),
		})
	}
	for _, a := range drawAddrs(t, "endpoint") {
		e := sources.Endpoint{
			Addr:     a,
			NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"),
			Weight:   uint32(rapid.IntRange(0, 3).Draw(t, "weight")),
			Ready:    rapid.Bool().Draw(t, "ready"), Serving: rapid.Bool().Draw(t, "serving"), Terminating: rapid.Bool().Draw(t, "terminating"),
			Cut: rapid.IntRange(0, 4).Draw(t, "cut") == 0, Spared: rapid.IntRange(0, 4).Draw(t, "spared") == 0,
			Hints: sources.HintsOf(hints.Draw(t, "node hints"), hints.Draw(t, "zone hints")),
		}
		for _, p := range s.Ports {
			e.Ports = append(e.Ports, sources.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: uint16(rapid.IntRange(1, 3).Draw(t, "target"))})
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	slices.SortStableFunc(s.Endpoints, func(a, b sources.Endpoint) int { return a.Addr.Compare(b.Addr) }) // as in all tables
	return s
}

func DrawTable(t *rapid.T) sources.Table {
	var all []sources.Service
	for i := range rapid.IntRange(0, 5).Draw(t, "services") {
		all = append(all, DrawService(t, fmt.Sprintf("s%d", i)))
	}
	return sources.Table{Services: sources.ServicesOf(all...)}
}

func DrawNode(t *rapid.T) kernel.Node {
	n := kernel.Node{Name: "n1", Zone: "a", BrNetfilter: rapid.Bool().Draw(t, "br_netfilter"), Primary4: netip.MustParseAddr("10.0.0.1")}
	for _, a := range append(drawAddrs(t, "node address"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1")) {
		n.Addrs = append(n.Addrs, kernel.NodeAddr{Prefix: netip.PrefixFrom(a, a.BitLen()), Link: "eth0"})
	}
	return n
}

func DrawConfig(t *rapid.T) mode.Config {
	c := Defaults()
	c.Frontends.IPv6 = rapid.Bool().Draw(t, "IPv6")
	c.Frontends.Forward = rapid.SampledFrom([]sources.Forward{"", sources.IPIP}).Draw(t, "forward")
	c.Lean = rapid.Bool().Draw(t, "lean")
	c.MasqueradeAll = rapid.Bool().Draw(t, "masqueradeAll")
	c.Frontends.LocalFallback = rapid.SampledFrom([]frontend.LocalFallback{frontend.FallbackDrop, frontend.FallbackCluster}).Draw(t, "fallback")
	c.Frontends.LocalCIDRs = rapid.SampledFrom([][]netip.Prefix{nil, {netip.MustParsePrefix("10.0.0.0/29")}}).Draw(t, "local CIDRs")
	c.Frontends.NodePortPrimary = rapid.Bool().Draw(t, "primary")
	return c
}

// Realistic changes a random table so that packets reach backends. Half of the
// services become healthy, and endpoints move off VIPs, as sources.Validate demands:
// packets to a bound VIP do not leave the node. Endpoints on an address of the node
// stay there.
func Realistic(t *rapid.T, table sources.Table, n kernel.Node) {
	isVIP := func(a netip.Addr) bool {
		return table.Services.ContainsFunc(func(s *sources.Service) bool { return s.HasVIP(a) })
	}
	for _, s := range table.Services.All() {
		healthy := rapid.Bool().Draw(t, "healthy")
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if healthy {
				e.Ready, e.Weight, e.NodeName = true, 1, [...]string{"n1", "n2", ""}[i]
			}
			if !n.Has(e.Addr) || isVIP(e.Addr) {
				bytes := e.Addr.AsSlice()
				bytes[1]++
				e.Addr, _ = netip.AddrFromSlice(bytes)
			}
		}
	}
}
