package frontend

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// A service counts once for a family and a direction, and only if it has endpoints
// that policy Local keeps from this node.
func TestWithoutLocal(t *testing.T) {
	service := func(name, vip, external string, policy sources.TrafficPolicy, endpoint, node string, weight uint32) sources.Service {
		s := sources.Service{
			Namespace: "default", Name: name, Type: sources.LoadBalancer, InternalTrafficPolicy: policy, ExternalTrafficPolicy: policy,
			ClusterIPs:  []netip.Addr{netip.MustParseAddr(vip)},
			ExternalIPs: []netip.Addr{netip.MustParseAddr(external)},
			Ports:       []sources.Port{{Name: "a", Protocol: sources.TCP, Port: 80}, {Name: "b", Protocol: sources.TCP, Port: 81}},
		}
		if endpoint != "" {
			s.Endpoints = []sources.Endpoint{{
				Addr: netip.MustParseAddr(endpoint), NodeName: node, Weight: weight, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Name: "a", Protocol: sources.TCP, Port: 8080}, {Name: "b", Protocol: sources.TCP, Port: 8081}},
			}}
		}
		return s
	}
	table := sources.Table{Services: sources.ServicesOf(
		service("cluster", "10.96.0.1", "203.0.113.1", sources.Cluster, "10.2.0.1", "n2", 1),
		service("elsewhere", "10.96.0.2", "203.0.113.2", sources.Local, "10.2.0.2", "n2", 1),
		service("empty", "10.96.0.3", "203.0.113.3", sources.Local, "", "", 0),
		service("here", "10.96.0.4", "203.0.113.4", sources.Local, "10.2.0.4", "n1", 1),
		service("paused", "10.96.0.5", "203.0.113.5", sources.Local, "10.2.0.5", "n1", 0),
	)}
	for _, c := range []struct {
		fallback           LocalFallback
		family             kernel.Family
		internal, external int
	}{
		{FallbackDrop, kernel.IPv4, 2, 2},
		{FallbackCluster, kernel.IPv4, 2, 1}, // traffic to elsewhere goes to the other node
		{FallbackDrop, kernel.IPv6, 0, 0},
	} {
		f := List(table, kernel.Node{Name: "n1"}, Config{IPv6: true, LocalFallback: c.fallback})
		if internal, external := f.WithoutLocal(c.family); internal != c.internal || external != c.external {
			t.Errorf("%s %v: %d internal, %d external; want %d, %d", c.fallback, c.family, internal, external, c.internal, c.external)
		}
	}
}
