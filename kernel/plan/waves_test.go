package plan_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// drawWaves makes plans of a few ops go in waves, or none.
func drawWaves(t *rapid.T) {
	least := rapid.SampledFrom([]int{2000, 1}).Draw(t, "least waved")
	t.Cleanup(plan.SetWaves(least, rapid.IntRange(1, 8).Draw(t, "ops of a wave"), rapid.IntRange(-1, 4).Draw(t, "few lost")))
}

// A plan in waves has the ops of one without, and each VIP is complete in one wave.
func TestWavesHaveAllOps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		if rapid.Bool().Draw(t, "served before") {
			w.Sync(world.Wanted(world.DrawTable(t, "a")))
		}
		want, have := world.Wanted(world.DrawTable(t, "b")), w.Read()
		whole := w.Diff(want, have)
		drawWaves(t)
		waved := w.Diff(want, have)
		if a, b := sortedLines(whole), sortedLines(waved); !slices.Equal(a, b) {
			t.Fatalf("without waves:\n%s\nwith waves:\n%s", world.Text(whole), world.Text(waved))
		}
		if len(whole.Waves) > 0 || len(waved.Waves) > 0 && waved.Waves[len(waved.Waves)-1].End > len(waved.Ops) {
			t.Fatalf("waves %v of %d ops", waved.Waves, len(waved.Ops))
		}
		wantHairpinsFirst(t, waved)
		in := map[netip.Addr]int{}
		for n, wave := range waved.Waves {
			start := 0
			if n > 0 {
				start = waved.Waves[n-1].End
			}
			for _, o := range waved.Ops[start:wave.End] {
				var a netip.Addr
				switch v := o.Object.(type) {
				case kernel.Virtual:
					a = v.Key.Addr
				case kernel.Real:
					a = v.Key.Virtual.Addr
				case kernel.Addr:
					a = v.Addr
				default:
					continue
				}
				if before, met := in[a]; met && before != n {
					t.Fatalf("%s is in waves %d and %d:\n%s", a, before, n, world.Text(waved))
				}
				in[a] = n
			}
		}
	})
}

// wantHairpinsFirst fails if a plan adds a real server before the entry for its hairpins.
func wantHairpinsFirst(t *rapid.T, p kernel.Plan) {
	added := map[kernel.VirtualKey]bool{} // endpoints
	for _, o := range p.Ops {
		if r, ok := o.Object.(kernel.Real); ok && o.Verb == kernel.Add {
			added[kernel.VirtualAt(r.Key.Addr, r.Key.Virtual.Proto)] = true
		}
		if e, ok := o.Object.(kernel.Entry); ok && o.Verb == kernel.Add && strings.HasSuffix(e.Set, string(kernel.LoopBack)) && added[e.Key()] {
			t.Fatalf("%v comes after its real server:\n%s", o, world.Text(p))
		}
	}
}

func sortedLines(p kernel.Plan) []string {
	var lines []string
	for _, o := range p.Ops {
		lines = append(lines, o.String())
	}
	slices.Sort(lines)
	return lines
}

// A plan that stops after a wave leaves a kernel from which the next plans lead to the same state, with the same tracked
// flows removed. The reading after it follows from what was done. This is a crash between two waves as well.
func TestStoppedPlansConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		w := world.New(t, foreign)
		if rapid.Bool().Draw(t, "served before") {
			w.Sync(world.Wanted(world.DrawTable(t, "a")))
		}
		want := world.Wanted(world.DrawTable(t, "b"))
		flows := flowsOf(w.Diff(want, w.Read()).Ops)
		drawWaves(t)
		have := w.Read()
		for stops := 0; ; stops++ {
			todo, done := w.Diff(want, have), -1
			todo.Stop = func(n int) bool {
				done = n
				return true
			}
			if err := w.Kernel.Apply(context.Background(), todo); err != nil {
				t.Fatal(err)
			}
			stopped := done >= 0
			if !stopped {
				done = len(todo.Ops)
			}
			flows = slices.DeleteFunc(flows, func(f kernel.Flow) bool { return slices.Contains(flowsOf(todo.Ops[:done]), f) })
			have = after(t, w, have, todo.Ops[:done])
			if !stopped {
				break
			}
			if stops > 20 {
				t.Fatal("no plan gets to its end")
			}
		}
		if len(flows) > 0 {
			t.Fatalf("not removed: %v", flows)
		}
		w.Converge(want)
		fresh := world.New(t, foreign)
		fresh.Sync(want)
		if got, want := sameCapacity(w.Kernel.State()), sameCapacity(fresh.Kernel.State()); got != want {
			t.Fatalf("in parts:\n%s\nat once:\n%s", got, want)
		}
	})
}

// after returns the reading after ops, which is as a new one.
func after(t *rapid.T, w *world.World, have kernel.Observed, ops []kernel.Op) kernel.Observed {
	now := w.Read()
	w.Memory.Owned = plan.Owned(&now, w.Memory.Owned)
	advanced, ok := plan.Advance(have, ops)
	if !ok {
		return w.Read()
	}
	now.Fresh, now.Conns = false, nil
	advanced.Chains = slices.DeleteFunc(slices.Clone(advanced.Chains), func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
	if advanced.String() != now.String() {
		t.Fatalf("advanced:\n%s\nread:\n%s", advanced, now)
	}
	return w.Read()
}

func flowsOf(ops []kernel.Op) (flows []kernel.Flow) {
	for _, o := range ops {
		if f, ok := o.Object.(kernel.Flow); ok {
			flows = append(flows, f)
		}
	}
	return flows
}

// The first wave of a large table is small, and each is at most twice as large as the one before. Those with few real servers come first, and a table of one more
// service has no waves at all.
func TestWavesOfALargeTable(t *testing.T) {
	want := world.Large(2000, 5)
	slow := want.Virtuals[0].Key
	for port := range uint16(500) {
		want.Reals = want.Reals.With(nil, []kernel.Real{{Key: kernel.RealKey{Virtual: slow, Addr: netip.AddrPortFrom(netip.MustParseAddr("172.30.0.1"), port+1)}, Weight: 1}})
	}
	want.Sort()
	p := plan.Once(want, kernel.Observed{Names: kernel.DefaultNames})
	if n := len(p.Waves); n < 4 || n > 8 {
		t.Fatalf("%d waves for %d ops", n, len(p.Ops))
	}
	last := 0
	for i, wave := range p.Waves[:len(p.Waves)-1] {
		if n := wave.End - last; n > 1100<<i {
			t.Errorf("wave %d has %d ops", i, n)
		}
		last = wave.End
	}
	if end := p.Waves[len(p.Waves)-1]; end.VIPs != 2000 || end.End != len(p.Ops) {
		t.Errorf("the last wave is %v of %d ops", end, len(p.Ops))
	}
	first := slices.IndexFunc(p.Ops, func(o kernel.Op) bool { return o.Object == kernel.Object(want.Virtuals[0]) })
	if first < p.Waves[len(p.Waves)-2].End {
		t.Error("the largest service is not in the last wave")
	}
	have := kernel.Observed{Names: kernel.DefaultNames, State: world.Large(2000, 5)}
	if p := plan.Once(world.Large(2001, 5), have); len(p.Waves) > 0 {
		t.Errorf("one more service goes in %d waves", len(p.Waves))
	}
}
