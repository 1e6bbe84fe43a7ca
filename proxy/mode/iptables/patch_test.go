package iptables

import (
	"net/netip"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// Whatever changes between two calls, a Mode returns what State does.
func TestPatchedIsMade(t *testing.T) {
	patched := 0
	rapid.Check(t, func(t *rapid.T) {
		var frontends frontend.Cache
		var m Mode
		config := modetest.Defaults()
		config.Frontends.LocalFallback = rapid.SampledFrom([]frontend.LocalFallback{frontend.FallbackDrop, frontend.FallbackCluster}).Draw(t, "fallback")
		node := kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{
			{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}, {Prefix: netip.MustParsePrefix("2001:db8::1/64"), Link: "eth0"},
		}}
		table, last := modetest.SmallTable(t), sources.Table{}
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			before := m.state
			kept := before.String()
			f := frontends.List(sources.Merged{Table: table, Delta: sources.Compare(last, table)}, node, config.Frontends)
			last = table
			if _, ok := m.since(f, config); ok {
				patched++
			}
			got, want := m.State(f, config), stateOf(table, node, config)
			if got.String() != want.String() || !reflect.DeepEqual(got.Policy, want.Policy) {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			if before.String() != kept {
				t.Fatal("a state that was given has changed")
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				table = modetest.SmallTable(t)
			case 1:
				config.MasqueradeAll = !config.MasqueradeAll
			case 2:
				config.EndpointChains = !config.EndpointChains
			default:
				table.Services = sources.ServicesOf(table.Services.Slice()...)
				s := table.Services.At(rapid.IntRange(0, table.Services.Len()-1).Draw(t, "service"))
				s.Endpoints = modetest.SmallEndpoints(t)
			}
		}
	})
	if patched == 0 {
		t.Error("no state was patched: nothing was tested")
	}
}

// A change of one endpoint changes one chain, however large the table.
func TestOneEndpointChangesOneChain(t *testing.T) {
	table := modetest.Big(300, 5)
	node, config := kernel.Node{Name: "n1"}, modetest.Defaults()
	before := stateOf(table, node, config)
	table.Services = sources.ServicesOf(table.Services.Slice()...)
	table.Services.At(7).Endpoints = table.Services.At(7).Endpoints[:4]
	p := plan.Once(stateOf(table, node, config), kernel.Observed{State: before, Names: config.Names})
	want := "chain ipv4 nat KUBE-SVC-" + portHash("default/s00007", kernel.TCP)
	if len(p.Ops) != 1 || p.Ops[0].Verb != kernel.Change || p.Ops[0].Object.String()[:len(want)] != want {
		t.Errorf("got %s, want a change of %s", p, want)
	}
}

func BenchmarkCache(b *testing.B) {
	t := modetest.Big(5000, 5)
	other := sources.Table{Services: sources.ServicesOf(t.Services.Slice()...)}
	other.Services.At(7).Endpoints = other.Services.At(7).Endpoints[:4]
	fewer := sources.Merged{Table: other, Delta: sources.Compare(t, other)}
	more := sources.Merged{Table: t, Delta: sources.Compare(other, t)}
	var frontends frontend.Cache
	var m Mode
	state := func(t sources.Merged) {
		m.State(frontends.List(t, kernel.Node{Name: "n1"}, modetest.Defaults().Frontends), modetest.Defaults())
	}
	state(sources.Merged{Table: t, Delta: sources.Compare(sources.Table{}, t)})
	b.ReportAllocs()
	for b.Loop() {
		state(fewer)
		state(more)
	}
}

func BenchmarkState(b *testing.B) {
	for name, size := range map[string][2]int{"5000x5": {5000, 5}, "1000x10": {1000, 10}} {
		b.Run(name, func(b *testing.B) {
			t := modetest.Big(size[0], size[1])
			b.ReportAllocs()
			for b.Loop() {
				stateOf(t, kernel.Node{Name: "n1"}, modetest.Defaults())
			}
		})
	}
}
