package frontend

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var here = kernel.Node{
	Name: "n1", Zone: "a", Primary4: addr("192.0.2.1"),
	Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}},
}

// loadBalancer returns a service with every kind of address.
func loadBalancer(endpoints ...sources.Endpoint) sources.Service {
	return sources.Service{
		Namespace: "default", Name: "web", Type: sources.LoadBalancer,
		ClusterIPs:      []netip.Addr{addr("10.96.0.20")},
		ExternalIPs:     []netip.Addr{addr("192.0.2.1"), addr("192.0.2.80")},
		LoadBalancerIPs: []sources.VIP{{Addr: addr("192.0.2.80")}, {Addr: addr("192.0.2.90"), Mode: sources.IPModeProxy}},
		Ports:           []sources.Port{{Protocol: sources.TCP, Port: 80, NodePort: 30080}},
		Endpoints:       endpoints,

		InternalTrafficPolicy: sources.Cluster, ExternalTrafficPolicy: sources.Local,
		HealthCheckNodePort: 31000,
	}
}

func endpoint(a, node string) sources.Endpoint {
	return sources.Endpoint{
		Addr: addr(a), NodeName: node, Weight: 1, Ready: true, Serving: true,
		Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
	}
}

func tableOf(services ...sources.Service) sources.Table {
	return sources.Table{Services: sources.ServicesOf(services...)}
}

func TestFrontsAndTheirTraits(t *testing.T) {
	f := List(tableOf(loadBalancer(endpoint("10.2.1.10", "n1"), endpoint("10.2.2.10", "n2"))), here, Config{})
	for _, want := range []struct {
		addr     string
		traits   Traits
		backends int
	}{
		{"10.96.0.20:80", ClusterIP | Bound, 2},
		{"192.0.2.1:80", ExternalIP | ExternalLocal, 1}, // the node's own address is not bound
		{"192.0.2.1:30080", NodePort | ExternalLocal, 1},
		{"192.0.2.80:80", ExternalIP | LoadBalancer | ExternalLocal | Bound, 1},
	} {
		i, found := f.Find(kernel.VirtualAt(netip.MustParseAddrPort(want.addr), kernel.TCP))
		if !found {
			t.Errorf("%s is not served", want.addr)
			continue
		}
		if x := &f.Fronts[i]; x.Traits != want.traits || len(f.Backends(x)) != want.backends {
			t.Errorf("%s: traits %b with %d backends, want %b with %d", want.addr, x.Traits, len(f.Backends(x)), want.traits, want.backends)
		}
	}
	if len(f.Fronts) != 4 {
		t.Errorf("%d fronts: %v", len(f.Fronts), f.Fronts)
	}
	if got := f.HealthChecks(); !slices.Equal(got, []HealthCheck{{"default", "web", "web", 31000, 1}}) {
		t.Errorf("health checks %v", got)
	}
	if got := f.Hairpins(0); len(got) != 1 || f.Addr(0, got[0].Backend) != netip.MustParseAddrPort("10.2.1.10:8080") {
		t.Errorf("hairpins %v", got)
	}
}

// Every reason is found, and all have texts of their own.
func TestReasons(t *testing.T) {
	s := loadBalancer(endpoint("10.2.1.10", "n1"), endpoint("10.2.1.11", "n1"), endpoint("10.2.1.12", "n1"),
		endpoint("10.2.1.13", "n1"), endpoint("10.2.1.14", "n1"), endpoint("10.2.1.15", "n1"), endpoint("10.2.2.10", "n2"))
	s.ClusterIPs, s.Scheduler = nil, "dh" // which ignores weights
	s.Withheld = []sources.Withheld{{Claim: sources.Claim{Addr: addr("10.2.1.11"), Endpoint: true}}}
	s.Endpoints[2].Weight = 0
	s.Endpoints[3].Ready, s.Endpoints[3].Terminating = false, true
	s.Endpoints[4].Ready = false
	s.Endpoints[5].Weight, s.Endpoints[5].Cut = 0, true
	want := []Reason{Used, EndpointVIP, ZeroWeight, Terminating, NotReady, Cut, Elsewhere}

	texts := map[string]bool{}
	for i, got := range List(tableOf(s), here, Config{}).Targets(0) {
		if got.Endpoint != i || got.Reason != want[i] {
			t.Errorf("endpoint %d: %q, want %q", i, got.Reason, want[i])
		}
		texts[got.Reason.String()] = true
	}
	if len(texts) != len(reasons) {
		t.Errorf("%d texts for %d reasons", len(texts), len(reasons))
	}
}

func TestWithoutBackends(t *testing.T) {
	paused, left := loadBalancer(endpoint("10.2.1.10", "n1")), loadBalancer()
	paused.Name, paused.Endpoints[0].Weight = "paused", 0
	left.Name, left.Withheld = "left out", []sources.Withheld{
		{Claim: sources.Claim{Addr: addr("10.96.0.20")}}, {Claim: sources.Claim{Addr: addr("192.0.2.1")}},
		{Claim: sources.Claim{Addr: addr("192.0.2.80")}}, {Claim: sources.Claim{Port: 30080, Protocol: sources.TCP}},
	}
	f := List(tableOf(left, paused, sources.Service{Name: "headless", Type: sources.Headless}), here, Config{})
	if got := f.WithoutBackends(); !slices.Equal(got, []string{"paused"}) {
		t.Errorf("got %v", got)
	}
	if got := List(tableOf(loadBalancer(endpoint("10.2.1.10", "n1"))), here, Config{}).WithoutBackends(); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// Since tells only successive Frontends of one Cache apart.
func TestSince(t *testing.T) {
	var services []sources.Service
	for i := range fewServices {
		s := loadBalancer(endpoint("10.2.1.10", "n1"))
		s.Name, s.ClusterIPs, s.ExternalIPs = string(rune('a'+i)), []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})}, nil
		s.LoadBalancerIPs, s.Ports[0].NodePort = nil, 0
		services = append(services, s)
	}
	changed := slices.Clone(services)
	changed[3].Endpoints = nil

	var last sources.Table
	merged := func(services []sources.Service) sources.Merged {
		before := last
		last = tableOf(services...)
		return sources.Merged{Table: last, Delta: sources.Compare(before, last)}
	}
	var c Cache
	first := c.List(merged(services), here, Config{})
	second := c.List(merged(changed), here, Config{})
	third := c.List(merged(changed), here, Config{})
	if got, ok := second.Since(first); !ok || len(got) != 1 || got[0].Service != 3 || len(got[0].Fronts) != 1 {
		t.Errorf("the second since the first: %v, %t", got, ok)
	}
	if got, ok := third.Since(second); !ok || len(got) != 0 {
		t.Errorf("the third since the second: %v, %t", got, ok)
	}
	if _, ok := third.Since(first); ok {
		t.Error("the third knows what changed since the first")
	}
	if _, ok := c.List(merged(changed), here, Config{IPv6: true}).Since(third); ok {
		t.Error("a new configuration changes endpoints only")
	}
	scheduled := slices.Clone(changed)
	scheduled[2].Scheduler = "lc"
	before := c.List(merged(changed), here, Config{})
	if got, ok := c.List(merged(scheduled), here, Config{}).Since(before); ok {
		t.Errorf("another scheduler changes endpoints only: %v", got)
	}
	if len(first.Backends(&first.Fronts[3])) != 1 || len(second.Backends(&second.Fronts[3])) != 0 {
		t.Error("the first has changed, or the second has not")
	}
}
