package ipvs

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Whatever changes between two calls, a Cache returns what List does and a Mode
// what State does.
func TestPatchedIsMade(t *testing.T) {
	patched := 0
	rapid.Check(t, func(t *rapid.T) {
		var frontends frontend.Cache
		var m Mode
		config := defaults()
		config.Frontends.LocalFallback = rapid.SampledFrom([]frontend.LocalFallback{frontend.FallbackDrop, frontend.FallbackCluster}).Draw(t, "fallback")
		node := kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{
			{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}, {Prefix: netip.MustParsePrefix("2001:db8::1/64"), Link: "eth0"},
		}}
		table, last := smallTable(t), sources.Table{}
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			before := m.state
			kept := before.String()
			f := frontends.List(sources.Merged{Table: table, Delta: sources.Compare(last, table)}, node, config.Frontends)
			last = table
			equal(t, f, frontend.List(table, node, config.Frontends))
			got, want := m.State(f, config), stateOf(table, node, config)
			if got.String() != want.String() || !reflect.DeepEqual(got.Policy, want.Policy) {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			if before.String() != kept {
				t.Fatal("a state that was given has changed")
			}
			if len(before.Virtuals) > 0 && len(got.Virtuals) > 0 && &before.Virtuals[0] == &got.Virtuals[0] && len(got.Reals) != len(before.Reals) {
				patched++
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				table = smallTable(t)
			case 1:
				config.MasqueradeAll = !config.MasqueradeAll
			default:
				table.Services = slices.Clone(table.Services)
				s := &table.Services[rapid.IntRange(0, len(table.Services)-1).Draw(t, "service")]
				s.Endpoints = smallEndpoints(t)
			}
		}
	})
	if patched == 0 {
		t.Error("no state was patched: nothing was tested")
	}
}

// equal fails unless two Frontends serve the same.
func equal(t *rapid.T, got, want *frontend.Frontends) {
	if !slices.Equal(got.Fronts, want.Fronts) || !slices.Equal(got.HealthChecks(), want.HealthChecks()) {
		t.Fatalf("got\n%v\nwant\n%v", got, want)
	}
	for i := range got.Fronts {
		if g, w := got.Backends(&got.Fronts[i]), want.Backends(&want.Fronts[i]); !slices.Equal(g, w) {
			t.Fatalf("%v: got %v, want %v", got.Fronts[i], g, w)
		}
	}
	for i := range got.Table.Services {
		if !slices.Equal(got.Targets(i), want.Targets(i)) || !slices.Equal(got.Hairpins(i), want.Hairpins(i)) {
			t.Fatalf("service %d: got %v, want %v", i, got.Targets(i), want.Targets(i))
		}
	}
}

// smallTable draws enough services that a change of one of them is patched. Their
// endpoints are often the same.
func smallTable(t *rapid.T) sources.Table {
	var table sources.Table
	for i := range 16 {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%02d", i), AffinityTimeout: sources.DefaultAffinityTimeout,
			Type:                  rapid.SampledFrom([]sources.Type{sources.ClusterIP, sources.NodePort, sources.LoadBalancer}).Draw(t, "type"),
			InternalTrafficPolicy: rapid.SampledFrom([]sources.TrafficPolicy{sources.Cluster, sources.Local}).Draw(t, "internal"),
			ExternalTrafficPolicy: rapid.SampledFrom([]sources.TrafficPolicy{sources.Cluster, sources.Local}).Draw(t, "external"),
			Ports: []sources.Port{
				{Name: "a", Protocol: sources.TCP, Port: 80, TargetPort: 8080},
				{Name: "b", Protocol: sources.UDP, Port: 53, TargetPort: 53},
			},
			Endpoints: smallEndpoints(t),
		}
		if s.Type != sources.ClusterIP {
			s.Ports[0].NodePort = uint16(30000 + i)
		}
		if s.Type != sources.NodePort || rapid.Bool().Draw(t, "cluster IP") {
			s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})}
		}
		if s.Type == sources.LoadBalancer {
			s.LoadBalancerIPs = []sources.VIP{{Addr: netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 9, 15: byte(i % 3)})}}
			s.Ports[0].Port = uint16(80 + i)
		}
		table.Services = append(table.Services, s)
	}
	return table
}

func smallEndpoints(t *rapid.T) []sources.Endpoint {
	var endpoints []sources.Endpoint
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 4, rapid.ID[int]).Draw(t, "endpoints") {
		a := netip.AddrFrom4([4]byte{172, 16, 0, byte(i)})
		if i > 6 {
			a = netip.AddrFrom16([16]byte{0xfd, 15: byte(i)})
		}
		endpoints = append(endpoints, sources.Endpoint{
			Addr: a, NodeName: rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"), Weight: 1,
			Cut:   rapid.IntRange(0, 4).Draw(t, "cut") == 0,
			Ready: rapid.Bool().Draw(t, "ready"), Serving: true, Terminating: true,
			Ports: []sources.EndpointPort{{Name: "a", Protocol: sources.TCP, Port: 8080}, {Name: "b", Protocol: sources.UDP, Port: 53}},
		})
	}
	return endpoints
}

func BenchmarkCache(b *testing.B) {
	t := big(5000, 5)
	other := sources.Table{Services: slices.Clone(t.Services)}
	other.Services[7].Endpoints = other.Services[7].Endpoints[:4]
	fewer := sources.Merged{Table: other, Delta: sources.Compare(t, other)}
	more := sources.Merged{Table: t, Delta: sources.Compare(other, t)}
	var frontends frontend.Cache
	var m Mode
	state := func(t sources.Merged) {
		m.State(frontends.List(t, kernel.Node{Name: "n1"}, defaults().Frontends), defaults())
	}
	state(sources.Merged{Table: t, Delta: sources.Compare(sources.Table{}, t)})
	b.ReportAllocs()
	for b.Loop() {
		state(fewer)
		state(more)
	}
}
