package iptables

import (
	"os"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/iptables"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// modeState returns the state of mode iptables for a table.
func modeState(t sources.Table, n kernel.Node, c mode.Config) kernel.State {
	return iptables.State(frontend.List(t, n, c.Frontends), c)
}

// written applies a state's chains, and checks that iptables-save prints them letter for letter,
// comments too, so that there is nothing left to do.
func (b backend) written(t *testing.T, want kernel.State) {
	t.Helper()
	for i, err := range b.Apply(t.Context(), b.diff(t, want).Ops) {
		if err != nil {
			t.Fatalf("op %d: %v", i, err)
		}
	}
	b.forget()
	have := b.read(t)
	for i := range have {
		if w, h := want.Chains[min(i, len(want.Chains)-1)], have[i]; w != h {
			t.Fatalf("%s\n%s\nread back:\n%s\n%s", w, w.Rules, h, h.Rules)
		}
	}
	if len(have) != len(want.Chains) {
		t.Fatalf("%d chains came back of %d", len(have), len(want.Chains))
	}
	if p := b.diff(t, want); !p.Empty() {
		t.Fatalf("what was written is changed again:\n%s", p)
	}
}

// diff is the plan from the present chains to those of a state, without flows.
func (b backend) diff(t *testing.T, want kernel.State) kernel.Plan {
	t.Helper()
	p := plan.Once(kernel.State{Chains: want.Chains}, kernel.Observed{State: kernel.State{Chains: b.read(t)}, Names: kernel.DefaultNames})
	p.Ops = slices.DeleteFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() != kernel.KindChain })
	return p
}

// Every kind of rule of mode iptables reads back as it was written, in both back ends and
// families. With one wrong character, svcproxy would write its rules again in every sync.
func TestModeReadsBack(t *testing.T) {
	if os.Getenv("SVCPROXY_NAMESPACE") != "" {
		t.Skip("the unit's sandbox has no scenarios")
	}
	variants := map[string]func(*mode.Config){
		"":                func(*mode.Config) {},
		"endpoint chains": func(c *mode.Config) { c.EndpointChains = true },
		"hairpin rules":   func(c *mode.Config) { c.HairpinRules = true },
		"localhost":       func(c *mode.Config) { c.LocalhostNodePorts = true },
		"all":             func(c *mode.Config) { c.MasqueradeAll, c.MasqueradeBit = true, 31 },
		"undetected":      func(c *mode.Config) { c.ClusterCIDRs, c.MasqueradeBit = nil, 0 },
		"bridge":          func(c *mode.Config) { c.DetectLocal, c.BridgeInterface = mode.DetectBridgeInterface, "br0" },
		"prefix, no pings": func(c *mode.Config) {
			c.DetectLocal, c.InterfaceNamePrefix, c.VIPPing = mode.DetectInterfaceNamePrefix, "veth", false
		},
		"liberal": func(c *mode.Config) { c.Conntrack.TCPBeLiberal = true },
	}
	eachBackend(t, func(t *testing.T, b backend) {
		names := []string{"every-rule", "affinity-weights", "trace-local", "trace-source-ranges-not-this-node", "no-services"}
		if inGuest() {
			names = names[:2] // it has the same programs and only differs in kernel modules
		}
		for _, name := range names {
			s := modetest.Scenario{Name: name}
			s.Read(t)
			for what, vary := range variants {
				if what != "" && (name != "every-rule" && name != "affinity-weights" || inGuest() && what != "endpoint chains") {
					continue
				}
				c := s.Config
				vary(&c)
				b.written(t, modeState(s.Table, s.Node, c))
			}
		}
		b.written(t, kernel.State{})
	})
}

func inGuest() bool { return os.Getenv("SVCPROXY_GUEST") != "" }

// A large table reads back, too: 5,000 chains of services, and 1,000 in the guest. A change of one endpoint writes its service's chain with one run
// of iptables-restore, and reads nothing before.
func TestLargeModeReadsBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs namespaces of its own")
	}
	eachBackend(t, func(t *testing.T, b backend) {
		services := 5000
		if inGuest() { // which takes ten times as long
			services = 1000
		}
		table, node, config := modetest.Big(services, 5), kernel.Node{Name: "n1"}, modetest.Defaults()
		want := modeState(table, node, config)
		b.written(t, want)

		table.Services = sources.ServicesOf(table.Services.Slice()...)
		table.Services.At(7).Endpoints = table.Services.At(7).Endpoints[1:]
		p, before := b.diff(t, modeState(table, node, config)), b.Stats()
		if errs := b.Apply(t.Context(), p.Ops); len(errs) != 1 || errs[0] != nil {
			t.Errorf("%d ops, %v; want 1", len(errs), errs)
		}
		if after := b.Stats(); after.Writers != before.Writers+1 || after.Readers != before.Readers {
			t.Errorf("%+v, before %+v", after, before)
		}
	})
}

// BenchmarkLarge loads 5,000 services with 5 endpoints each into empty tables with one restore,
// changes one endpoint, and reads.
func BenchmarkLarge(b *testing.B) {
	full := modeState(modetest.Big(5000, 5), kernel.Node{Name: "n1"}, modetest.Defaults())
	fewer := modetest.Big(5000, 5)
	fewer.Services.At(7).Endpoints = fewer.Services.At(7).Endpoints[:4]
	less := modeState(fewer, kernel.Node{Name: "n1"}, modetest.Defaults())
	for _, name := range backends {
		b.Run("load/"+name, func(b *testing.B) {
			s := newSyncer(b, name)
			for b.Loop() {
				s.sync(full)
				b.StopTimer()
				s.sync(kernel.State{})
				b.StartTimer()
			}
		})
		b.Run("change/"+name, func(b *testing.B) {
			s := newSyncer(b, name)
			s.sync(full)
			for b.Loop() {
				s.sync(less)
				b.StopTimer()
				s.sync(full)
				b.StartTimer()
			}
		})
		b.Run("read/"+name, func(b *testing.B) {
			s := newSyncer(b, name)
			s.sync(full)
			for b.Loop() {
				s.tables.forget()
				if _, err := s.tables.Read(b.Context(), kernel.DefaultNames); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// syncer applies states in a network namespace of its own.
type syncer struct {
	*testing.B
	tables *Tables
	have   kernel.Observed
}

func newSyncer(b *testing.B, backend string) *syncer {
	kerneltest.Need(b, kerneltest.Tool("iptables-"+backend))
	kerneltest.NewNamespace(b)
	tt, err := Open(b.Context(), Options{Find: func(tool string) (string, error) { return find(named(tool, backend)) }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { tt.Close() })
	return &syncer{b, tt, kernel.Observed{Names: kernel.DefaultNames}}
}

func (s *syncer) sync(want kernel.State) {
	want = kernel.State{Chains: want.Chains}
	p := plan.Once(want, s.have)
	if err := kernel.Failures(p.Ops, s.tables.Apply(s.Context(), p.Ops)); err != nil {
		s.Fatal(err)
	}
	s.have.State = want
}
