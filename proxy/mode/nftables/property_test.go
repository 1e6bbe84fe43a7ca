package nftables

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

func stateOf(t sources.Table, n kernel.Node, c mode.Config) kernel.State {
	return State(frontend.List(t, n, c.Frontends), c)
}

// TestProperties checks what must be true of the state for any table.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), modetest.DrawConfig(t)
		s := stateOf(table, node, config)
		if again := stateOf(table, node, config); again.String() != s.String() {
			t.Fatalf("two answers:\n%s\n%s", s, again)
		}
		sorted := s.Clone()
		sorted.Sort()
		if sorted.String() != s.String() {
			t.Fatalf("not sorted, or duplicates:\n%s", s)
		}
		read, err := kernel.ParseObserved(s.String())
		if err != nil || read.State.String() != s.String() {
			t.Fatalf("does not read back: %v\n%s", err, s)
		}
		have := kernel.Observed{State: s, Names: config.Names, Node: node}
		if p, _ := plan.Diff(s, have, kernel.Memory{Cut: s.Policy.Cut}, kernel.Now{}); !p.Empty() {
			t.Fatalf("a kernel as wanted is changed:\n%s", p)
		}
		kept := have
		kept.State = s.Clone()
		if plan.KeepOwned(&kept); kept.State.String() != s.String() {
			t.Fatalf("not all of it is ours:\n%s\nours:\n%s", s, kept.State)
		}
		everythingLeads(t, s, config.Names)
		slotsFit(t, s, table, node, config)
	})
}

// slotsFit checks that a service has no more slots than its size says, which is what bounds a table.
func slotsFit(t *rapid.T, s kernel.State, table sources.Table, n kernel.Node, c mode.Config) {
	most := 0
	for _, s := range table.Services.All() {
		size := sources.SizeOf(s)
		most += max(size.Slots, size.HashSlots) * max(1, len(n.Addrs)) // of node ports
	}
	have := 0
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		have += s.Entries.Of(c.Names.Set(f, kernel.Slots)).Len()
	}
	if have > most {
		t.Fatalf("%d slots, and %d by the size of the table", have, most)
	}
}

// everythingLeads checks that rules and maps lead to chains that exist, that something leads to each chain of ours, and
// that no two source ranges of a key overlap, which nftables refuses.
func everythingLeads(t *rapid.T, s kernel.State, names kernel.Names) {
	there, used := map[kernel.Chain]bool{}, map[kernel.Chain]bool{}
	for _, c := range s.Chains {
		there[kernel.Chain{Family: c.Family, Table: c.Table, Name: c.Name}] = true
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			if to := kernel.Target(rule); strings.HasPrefix(to, names.Prefix) {
				used[kernel.Chain{Family: c.Family, Table: c.Table, Name: to}] = true
			}
		}
	}
	var last kernel.Entry
	for e := range s.Entries.All() {
		family, spec, _ := names.SetSpec(e.Set)
		if e.Goto != "" {
			used[kernel.Chain{Family: family, Table: "nat", Name: e.Goto}] = true
		}
		if spec.Name == kernel.LoadBalancerSourceCIDR && last.Set == e.Set && last.Key() == e.Key() && last.Second.Overlaps(e.Second) {
			t.Fatalf("%s and %s overlap", last.Member(), e.Member())
		}
		last = e
	}
	for c := range used {
		if !there[c] {
			t.Fatalf("there is no %s", c)
		}
	}
	for c := range there {
		if !used[c] && !c.BuiltIn() && !strings.HasSuffix(c.Name, "-"+refuse) && !strings.HasSuffix(c.Name, "-"+discard) {
			t.Fatalf("nothing leads to %s", c)
		}
	}
}

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

// An endpoint that goes costs as many entries as the service has slots, however large the table, and copies only what
// is near them.
func TestOneEndpointChangesFewEntries(t *testing.T) {
	table, node, config := modetest.Big(2000, 5), kernel.Node{Name: "n1"}, modetest.Defaults()
	var frontends frontend.Cache
	var m Mode
	state := func(was sources.Table) kernel.State {
		return m.State(frontends.List(sources.Merged{Table: table, Delta: sources.Compare(was, table)}, node, config.Frontends), config)
	}
	before, was := state(sources.Table{}), table
	table.Services = sources.ServicesOf(table.Services.Slice()...)
	table.Services.At(700).Endpoints = table.Services.At(700).Endpoints[:4]
	after, copied := state(was), 0
	after.Entries.Unshared(before.Entries, func(own, _ []kernel.Entry) { copied += len(own) })
	if copied > 1200 { // runs of a map of frontends and of one of slots
		t.Errorf("%d of %d entries are copied", copied, after.Entries.Len())
	}
	p := plan.Once(after, kernel.Observed{State: before, Names: config.Names})
	entries := 0
	for _, o := range p.Ops {
		if o.Object.Kind() == kernel.KindEntry {
			entries++
		}
	}
	if entries > 4 {
		t.Errorf("%d ops on entries:\n%s", entries, p)
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
