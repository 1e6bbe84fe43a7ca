package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// A load in several plans ends in the state of a single one. After each plan every address has all of its virtual
// servers or none, and is not bound without them.
func TestLoadsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		if rapid.Bool().Draw(t, "served before") {
			w.Sync(world.Wanted(world.DrawTable(t, "a")))
		}
		want := world.Wanted(world.DrawTable(t, "b"))
		n := rapid.IntRange(0, 5).Draw(t, "objects of a plan")
		var tried map[netip.Addr]bool
		for round := 0; ; round++ {
			have := w.Read()
			part, left := plan.Next(want, &have, tried, n, round > 0)
			w.Sync(part)
			now := w.Read()
			tried = plan.Tried(part, &now, tried)
			served := map[netip.Addr]bool{}
			for _, v := range now.Virtuals {
				served[v.Key.Addr] = true
			}
			for _, v := range want.Virtuals {
				_, exists := kernel.FindVirtual(now.Virtuals, v.Key)
				if served[v.Key.Addr] && !exists {
					t.Fatalf("%s is missing, and another virtual server of its address is there", v)
				}
			}
			if left == 0 {
				break
			}
			if n = max(n, 1); round > 20 {
				t.Fatal("the load does not end")
			}
		}
		w.Converge(want)
		if p := w.Diff(want, w.Read()); !p.Empty() {
			t.Fatalf("after the load:\n%s", world.Text(p))
		}
	})
}

func TestNext(t *testing.T) {
	all := world.Large(2000, 5)
	none := kernel.Observed{Names: kernel.DefaultNames}
	part, left := plan.Next(all, &none, nil, 600, true)
	if len(part.Virtuals) != 100 || left != 1900 || part.Reals.Len() != 500 || len(part.Addrs) != 100 ||
		!part.Policy.More {
		t.Errorf("%d virtual servers, %d VIPs left", len(part.Virtuals), left)
	}
	part, left = plan.Next(all, &none, nil, 600, false)
	if len(part.Virtuals) != 0 || left != 2000 || len(part.Sets) != len(all.Sets) {
		t.Errorf("with room for none: %d virtual servers, %d VIPs left", len(part.Virtuals), left)
	}
	for _, n := range []int{8000, 20000} { // for 12,000
		if part, left := plan.Next(all, &none, nil, n, true); left != 0 || part.Policy.More {
			t.Errorf("with room for %d: %d VIPs left", n, left)
		}
	}
	if part, left := plan.Next(world.Large(1, 500), &none, nil, 100, true); left != 0 || part.Policy.More {
		t.Errorf("of one large VIP %d are left, more: %t", left, part.Policy.More)
	}
	refused := map[netip.Addr]bool{}
	for _, v := range all.Virtuals[:1000] {
		refused[v.Key.Addr] = true
	}
	part, left = plan.Next(all, &none, refused, 600, true)
	if len(part.Virtuals) != 100 || part.Virtuals[0] != all.Virtuals[1000] || left != 1900 {
		t.Errorf("with VIPs that were tried: %d virtual servers, %d VIPs left", len(part.Virtuals), left)
	}
	if tried := plan.Tried(part, &none, refused); len(tried) != 1100 || len(refused) != 1000 {
		t.Errorf("%d VIPs were tried", len(tried))
	}
	if _, left = plan.Next(all, &none, refused, 4000, true); left != 0 {
		t.Errorf("with room for all but those that were tried: %d VIPs left", left)
	}
	served := kernel.Observed{Names: kernel.DefaultNames, State: all}
	if _, left := plan.Next(world.Large(2001, 5), &served, nil, 1, true); left != 0 {
		t.Errorf("%d VIPs left of one that is new", left)
	}
}

// While more VIPs follow, virtual servers that are unwanted go at once, unless they have many real servers.
func TestTeardownDuringALoad(t *testing.T) {
	all := world.Large(2000, 5)
	for _, lost := range []int{100, 101} {
		gone := map[netip.Addr]bool{}
		for _, v := range all.Virtuals[:lost] {
			gone[v.Key.Addr] = true
		}
		want := kernel.State{Sets: all.Sets, Policy: kernel.Policy{More: true}}
		have := kernel.Observed{Names: kernel.DefaultNames, State: kernel.State{
			Sets: all.Sets, Virtuals: all.Virtuals[:lost],
			Reals:   all.Reals.Where(func(r *kernel.Real) bool { return gone[r.Key.Virtual.Addr] }),
			Entries: all.Entries.Where(func(e kernel.Entry) bool { return gone[e.Addr] }),
		}}
		ops := plan.Once(want, have).Ops
		removes := func(kind kernel.Kind) bool {
			return slices.ContainsFunc(ops, func(o kernel.Op) bool { return o.Object.Kind() == kind })
		}
		if removes(kernel.KindVirtual) != (lost == 100) || !removes(kernel.KindEntry) {
			t.Errorf("%d virtual servers of 5 real servers: %d ops", lost, len(ops))
		}
	}
}
