package random

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// draw makes random values. The same seed gives the same ones.
type draw struct{ *rand.Rand }

func newDraw(seed uint64) draw { return draw{rand.New(rand.NewPCG(seed, 0))} }

// chance is true one time in n.
func (d draw) chance(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d draw, from ...T) T { return from[d.IntN(len(from))] }

// some are up to n draws from f.
func some[T any](d draw, n int, f func() T) []T {
	var list []T
	for range d.IntN(n + 1) {
		list = append(list, f())
	}
	return list
}

// There are few addresses to draw from, so tables share virtual servers,
// services share VIPs, and a VIP of one table can be a node address in the
// next. IPv6 ones inside 2001:db8::/64 are neighbours of the node's link.
var (
	clusterVIPs  = []netip.Prefix{prefix("10.96.0.0/27"), prefix("fd00:96::/123")}
	externalVIPs = []netip.Prefix{prefix("203.0.113.0/28"), prefix("2001:db8::100/124"), prefix("192.0.2.0/29"), prefix("2001:db8::/125")}
	balancerVIPs = []netip.Prefix{prefix("198.51.100.0/28"), prefix("2001:db8::200/124"), prefix("2001:db8:f::/124")}
	endpoints    = []netip.Prefix{prefix("10.2.1.0/28"), prefix("fd00:2:1::/124"), prefix("10.2.2.0/28"), prefix("192.0.2.0/30")}
	ranges       = []netip.Prefix{
		prefix("0.0.0.0/0"), prefix("128.0.0.0/1"), prefix("10.0.0.0/8"), prefix("192.0.2.0/24"), prefix("198.51.100.7/32"),
		prefix("::/0"), prefix("2001:db8::/32"), prefix("2001:db8::5/128"),
	}
)

// schedulers are those that the kernel may load while a virtual server is added:
// all but lblc and lblcr.
var schedulers = []string{"", "rr", "wrr", "lc", "wlc", "sh", "dh", "sed", "nq", "fo", "ovf", "mh"}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// addr draws an address from one of some prefixes, but not its first.
func (d draw) addr(from []netip.Prefix) netip.Addr {
	p := pick(d, from...)
	b := p.Addr().As16()
	b[15] += byte(1 + d.IntN(1<<(p.Addr().BitLen()-p.Bits())-1))
	a := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		a = a.Unmap()
	}
	return a
}

func (d draw) addrs(n int, from []netip.Prefix) []netip.Addr {
	return some(d, n, func() netip.Addr { return d.addr(from) })
}

// largeServices is past what the smallest sets have room for, with enough VIPs
// that they are routed by default.
const largeServices = 1100

// next is the table that follows another: some services stay, some have other
// endpoints, others are new or gone. Now and then it is empty, or large.
func (d draw) next(last sources.Table) sources.Table {
	var t sources.Table
	if !d.chance(20) {
		for _, s := range last.Services.Slice()[:min(last.Services.Len(), 20)] {
			if d.chance(3) {
				continue
			}
			if d.chance(2) {
				s.Endpoints = d.endpoints(s.Ports)
			}
			t.Services = t.Services.Append(s)
		}
		for range d.IntN(12) {
			t.Services = t.Services.Append(d.service(fmt.Sprintf("s%02d", d.IntN(100))))
		}
	}
	if d.chance(80) {
		t.Services = t.Services.Append(large()...)
	}
	t, _ = sources.Merge(sources.HostFacts{}, t) // which leaves out what is there twice, as the program does
	return t
}

func (d draw) service(name string) sources.Service {
	s := sources.Service{
		Namespace: sources.DefaultNamespace, Name: name,
		Type:                     pick(d, sources.ClusterIP, sources.NodePort, sources.LoadBalancer, sources.LoadBalancer, sources.Headless, sources.ExternalName),
		ClusterIPs:               d.addrs(2, clusterVIPs),
		ExternalTrafficPolicy:    pick(d, sources.Cluster, sources.Local),
		InternalTrafficPolicy:    pick(d, sources.Cluster, sources.Cluster, sources.Local),
		AffinityTimeout:          time.Duration(pick(d, 1, 300, 10800, 86400)) * time.Second,
		Affinity:                 pick(d, sources.AffinityNone, sources.AffinityClientIP),
		PublishNotReadyAddresses: d.chance(4),
		Scheduler:                pick(d, schedulers...),
	}
	if d.chance(3) {
		s.ExternalIPs = d.addrs(2, externalVIPs)
	}
	if s.Type == sources.LoadBalancer {
		s.LoadBalancerIPs = some(d, 3, func() sources.VIP {
			return sources.VIP{Addr: d.addr(balancerVIPs), Mode: pick(d, sources.IPModeDefault, sources.IPModeVIP, sources.IPModeProxy)}
		})
		s.SourceRanges = some(d, 3, func() netip.Prefix { return pick(d, ranges...) })
		if s.ExternalTrafficPolicy == sources.Local {
			s.HealthCheckNodePort = uint16(32000 + d.IntN(500))
		}
	}
	for i := range 1 + d.IntN(3) {
		port := sources.Port{
			Name: fmt.Sprintf("p%d", i), Protocol: pick(d, sources.TCP, sources.UDP, sources.SCTP),
			Port: pick[uint16](d, 53, 80, 443), TargetPort: 8080,
		}
		if s.Type != sources.ClusterIP && d.chance(2) {
			port.NodePort = uint16(30000 + d.IntN(1000))
		}
		s.Ports = append(s.Ports, port)
	}
	s.Endpoints = d.endpoints(s.Ports)
	return s
}

func (d draw) endpoints(ports []sources.Port) []sources.Endpoint {
	return some(d, 6, func() sources.Endpoint {
		e := sources.Endpoint{
			Addr: d.addr(endpoints), NodeName: pick(d, "", nodeName, "n2"), Zone: pick(d, "", "a", "b"),
			Weight: pick[uint32](d, 0, 1, 1, 1, 7, 65535),
			Ready:  !d.chance(4), Serving: !d.chance(4), Terminating: d.chance(4),
		}
		var nodes, zones []string
		if d.chance(3) {
			zones = []string{pick(d, "a", "b")}
		}
		if d.chance(6) {
			nodes = []string{pick(d, nodeName, "n2")}
		}
		e.Hints = sources.HintsOf(nodes, zones)
		for _, p := range ports {
			if !d.chance(5) {
				e.Ports = append(e.Ports, sources.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: pick[uint16](d, 8080, 9090)})
			}
		}
		return e
	})
}

// large are many services of one VIP, every tenth with an IPv6 one too, and one
// endpoint each.
func large() []sources.Service {
	services := make([]sources.Service, largeServices)
	for i := range services {
		high, low := byte(i>>8), byte(i)
		s := sources.Service{
			Namespace: "large", Name: fmt.Sprintf("s%04d", i), Type: sources.ClusterIP, Scheduler: "rr",
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 97, high, low})},
			Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		}
		for _, a := range []netip.Addr{netip.AddrFrom4([4]byte{10, 3, high, low}), netip.AddrFrom16([16]byte{0xfd, 1: 3, 14: high, 15: low})} {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{
				Addr: a, Weight: 1, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
			})
		}
		if i%10 == 0 {
			s.ClusterIPs = append(s.ClusterIPs, netip.AddrFrom16([16]byte{0xfd, 1: 0x97, 14: high, 15: low}))
		}
		services[i] = s
	}
	return services
}
