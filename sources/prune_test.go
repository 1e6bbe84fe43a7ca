package sources_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// Prune removes what cannot be served. The rest can be.
func TestPrune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tables("a").Draw(t, "table")
		for _, s := range table.Services.Slice() {
			before := s
			before.ExternalIPs = slices.Clone(s.ExternalIPs)
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 3).Draw(t, "external") {
				s.ExternalIPs = append(s.ExternalIPs, []netip.Addr{addr(1), addr(9), netip.IPv6Unspecified(), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("2001:db8::1")}[i])
			}
			pruned, problems, ok := sources.Prune(s)
			if !reflect.DeepEqual(pruned.ClusterIPs, before.ClusterIPs) {
				t.Fatalf("cluster IPs %v", pruned.ClusterIPs)
			}
			refused := sources.Validate(sources.Table{Services: sources.ServicesOf(pruned)})
			refused = slices.DeleteFunc(refused, func(p sources.Problem) bool { return slices.Contains(problems, p) })
			// An endpoint that is its own service's VIP is for Merge, which knows the node.
			if own := slices.ContainsFunc(pruned.Endpoints, func(e sources.Endpoint) bool { return pruned.HasVIP(e.Addr) }); ok && !own && len(refused) > 0 {
				t.Errorf("%+v is served and refused: %v", pruned, refused)
			}
		}
	})
}

func TestPruneNamesWhatIsLeftOut(t *testing.T) {
	s := sources.Service{
		Namespace: "default", Name: "web", Type: sources.LoadBalancer, ClusterIPs: []netip.Addr{addr(1)},
		ExternalIPs:     []netip.Addr{netip.MustParseAddr("127.0.0.1"), addr(2)},
		LoadBalancerIPs: []sources.VIP{{Addr: addr(2)}},
		Ports:           []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 80}},
		Endpoints: []sources.Endpoint{
			{Addr: addr(1), Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 80}}},
			{Addr: addr(7), Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 80}}},
		},
	}
	pruned, problems, ok := sources.Prune(s)
	if !ok || len(pruned.ExternalIPs) > 0 || len(pruned.LoadBalancerIPs) != 1 || len(pruned.Endpoints) != 1 {
		t.Errorf("%t: %+v", ok, pruned)
	}
	if len(s.ExternalIPs) != 2 || len(s.Endpoints) != 2 {
		t.Errorf("the argument was changed: %+v", s)
	}
	want := []string{
		"web: VIP 127.0.0.1 is a loopback address: it is left out, as no client could reach it",
		"web: endpoint 10.0.0.1 is the service's own VIP and port: it is left out, as it would be sent to itself",
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if _, _, ok := sources.Prune(sources.Service{Namespace: "default", Name: "web", Type: sources.ClusterIP, ExternalIPs: []netip.Addr{netip.IPv6Unspecified()}}); ok {
		t.Error("nothing is left, and it is served")
	}
}
