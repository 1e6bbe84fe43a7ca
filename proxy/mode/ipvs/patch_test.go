package ipvs

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// Whatever changes between two calls, a Cache returns what List does and a Mode
// what State does.
func TestPatchedIsMade(t *testing.T) {
	patched := 0
	rapid.Check(t, func(t *rapid.T) {
		var frontends frontend.Cache
		var m Mode
		config := modetest.Defaults()
		config.Frontends.LocalFallback = rapid.SampledFrom([]frontend.LocalFallback{frontend.FallbackDrop, frontend.FallbackCluster}).Draw(t, "fallback")
		config.Frontends.Forward = rapid.SampledFrom([]sources.Forward{"", sources.Direct}).Draw(t, "forward")
		node := kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{
			{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}, {Prefix: netip.MustParsePrefix("2001:db8::1/64"), Link: "eth0"},
		}}
		table, last := modetest.SmallTable(t), sources.Table{}
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
			if isPatched(before, got) && got.Reals.Len() != before.Reals.Len() {
				patched++
			}
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				table = modetest.SmallTable(t)
			case 1:
				config.MasqueradeAll = !config.MasqueradeAll
			default:
				table.Services = sources.ServicesOf(table.Services.Slice()...)
				i := rapid.IntRange(0, table.Services.Len()-1).Draw(t, "service")
				s := table.Services.At(i)
				if s.Endpoints = modetest.SmallEndpoints(t); rapid.Bool().Draw(t, "weight alone") {
					s.Endpoints = slices.Clone(last.Services.At(i).Endpoints)
					for k := range s.Endpoints {
						s.Endpoints[k].Weight = rapid.Uint32Range(0, 3).Draw(t, "weight")
					}
				}
			}
		}
	})
	if patched == 0 {
		t.Error("no state was patched: nothing was tested")
	}
}

// isPatched reports whether a state shares the virtual servers of the one before.
func isPatched(before, now kernel.State) bool {
	return len(before.Virtuals) > 0 && len(now.Virtuals) > 0 && &before.Virtuals[0] == &now.Virtuals[0]
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
	for i := range got.Table.Services.Len() {
		if !slices.Equal(got.Targets(i), want.Targets(i)) || !slices.Equal(got.Hairpins(i), want.Hairpins(i)) {
			t.Fatalf("service %d: got %v, want %v", i, got.Targets(i), want.Targets(i))
		}
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
