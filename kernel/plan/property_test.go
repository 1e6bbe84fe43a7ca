package plan_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// From any kernel, one plan whose every op is accepted leads to the wanted state, and a
// second plan is empty.
func TestDiffConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		a, b := world.Wanted(world.DrawTable(t, "a")), world.Wanted(world.DrawTable(t, "b"))
		w := world.New(t, foreign)
		w.Sync(a)
		w.DrawConns()
		w.Drift()
		w.Sync(b)
		if p := w.Diff(b, w.Read()); !p.Empty() {
			t.Fatalf("a second diff is not empty:\n%s", world.Text(p))
		}
		w.Converge(b)
		fresh := world.New(t, foreign)
		fresh.Sync(b)
		if got, want := sameCapacity(w.Kernel.State()), sameCapacity(fresh.Kernel.State()); got != want {
			t.Fatalf("A then B is not B.\nA then B:\n%s\nB:\n%s", got, want)
		}
	})
}

func sameCapacity(s kernel.State) string {
	for i := range s.Sets {
		s.Sets[i].MaxElem = 0
	}
	return s.String()
}

// A plan to nothing removes every owned object and leaves the foreign ones byte for
// byte.
func TestCleanupLeavesForeigners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		w := world.New(t, foreign)
		before := w.Kernel.State().String()
		a := world.Wanted(world.DrawTable(t, "a"))
		w.Sync(a)
		w.Drift()
		w.DrawConns()
		w.Sync(kernel.State{})
		// A built-in chain that holds no rules is the same as none.
		after := w.Kernel.State()
		after.Chains = slices.DeleteFunc(after.Chains, func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
		if got := after.String(); got != before {
			t.Fatalf("after cleanup:\n%s\nbefore:\n%s", got, before)
		}
	})
}

// After each op, and so after a crash at any point, our virtual servers are in the
// ownership set. While the plan builds up, no VIP is bound without a virtual server. A VIP
// is announced only while it is bound and served.
func TestEveryPrefixIsSafe(t *testing.T) {
	fewerChecks(t)
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		w := world.New(t, foreign)
		for _, label := range []string{"a", "b", "nothing"} {
			var want kernel.State
			if label != "nothing" {
				want = world.Wanted(world.DrawTable(t, label))
			}
			have := w.Read()
			for _, op := range w.Diff(want, have).Ops {
				if op.Object.Kind() == kernel.KindChain {
					continue // they are one transaction
				}
				if err := w.Kernel.Apply(context.Background(), kernel.Plan{Ops: []kernel.Op{op}}); err != nil && op.Object.Kind() != kernel.KindSet {
					t.Fatalf("%s: %v", op, err)
				}
				safe(t, w.Read(), foreign, op)
			}
			w.Sync(want)
		}
	})
}

func safe(t *rapid.T, o kernel.Observed, foreign kernel.State, last kernel.Op) {
	owned := plan.Owned(&o, nil)
	served := map[netip.Addr]bool{}
	for _, v := range o.Virtuals {
		served[v.Key.Addr] = true
		theirs := slices.ContainsFunc(foreign.Virtuals, func(f kernel.Virtual) bool { return f == v })
		if theirs == slices.Contains(owned, v.Key) {
			t.Fatalf("after %s: %s: foreign %v, in the ownership set %v", last, v, theirs, !theirs)
		}
	}
	for _, a := range o.Addrs {
		if !served[a.Addr] && last.Verb != kernel.Remove {
			t.Fatalf("after %s: %s is bound and has no virtual server", last, a)
		}
	}
	for _, a := range o.Announcements {
		if !served[a.Addr] || !slices.Contains(o.Addrs, kernel.Addr{Addr: a.Addr, Link: world.Names.Device}) {
			t.Fatalf("after %s: %s is announced and not served", last, a.Addr)
		}
	}
	for _, a := range o.Addrs {
		if !o.Entries.Has(kernel.Entry{Set: world.Names.Set(kernel.FamilyOf(a.Addr), kernel.IPVSIPs), Addr: a.Addr}) {
			t.Fatalf("after %s: %s is bound and not guarded", last, a)
		}
	}
}

// With a deadline every drain ends, with or without connections.
func TestDrainsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, kernel.State{})
		table := world.DrawTable(t, "a")
		w.Sync(world.Wanted(table))
		for _, r := range w.Read().Reals.All() {
			w.Kernel.SetConns(r.Key, kernel.Conns{Active: 1})
		}
		for i := range table {
			table[i].Reals = nil
		}
		want := world.Wanted(table)
		want.Policy.DrainTimeout = 30 * time.Second
		p := w.Sync(want)
		for range 3 {
			if p.Draining == 0 {
				break
			}
			if p.Wake.IsZero() {
				t.Fatal("a drain with a deadline does not ask to be woken")
			}
			w.Now = p.Wake
			p = w.Sync(want)
		}
		if n := w.Read().Reals.Len(); n != 0 {
			t.Fatalf("%d real servers are left after the deadline", n)
		}
	})
}

// What becomes of objects while a table is missing is decided in one place.
func TestOneRuleAboutMissingTables(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"decided.go", "advance.go"} // a reading after such a plan is not what was wanted
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		own := strings.HasSuffix(file, "_test.go") || slices.Contains(allowed, file)
		if !own && strings.Contains(string(text), "Policy.Hold") {
			t.Errorf("%s asks whether a table is missing: ask decided", file)
		}
	}
}

// Until every source has delivered, plans only add. The announcement of a VIP that is wanted may go: that was decided.
func TestHoldRemovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		w.DrawConns()
		b := world.Wanted(world.DrawTable(t, "b"))
		b.Policy.Hold = true
		for _, op := range w.Diff(b, w.Read()).Ops {
			a, announced := op.Object.(kernel.Announcement)
			if announced && slices.ContainsFunc(b.Addrs, func(x kernel.Addr) bool { return x.Addr == a.Addr }) {
				continue
			}
			// Removing a tracked flow removes no service.
			if _, flow := op.Object.(kernel.Flow); op.Verb == kernel.Remove && !flow && !strings.Contains(op.String(), world.Names.TempSets()) {
				t.Fatalf("held plan removes: %s", op)
			}
		}
	})
}

// An unwanted real server that is cut is removed at once, whatever connections it has
// and whether or not every source has delivered. No other is removed because of it.
func TestCutRemovesAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		table := world.DrawTable(t, "a")
		w.Sync(world.Wanted(table))
		w.DrawConns()
		for i := range table {
			table[i].Reals = table[i].Reals[rapid.IntRange(0, len(table[i].Reals)).Draw(t, "unwanted"):]
		}
		want := world.Wanted(table)
		want.Policy.Hold = rapid.Bool().Draw(t, "hold")
		have := w.Read()
		for _, r := range have.Reals.All() {
			w.Memory.Drains = append(w.Memory.Drains, kernel.Drain{Real: r.Key, Since: w.Now})
		}
		removed := func() (keys []kernel.RealKey) {
			p := w.Diff(want, have)
			for _, op := range p.Ops {
				if r, ok := op.Object.(kernel.Real); ok && op.Verb == kernel.Remove && !slices.ContainsFunc(p.Drains, func(d kernel.Drain) bool { return d.Real == r.Key }) {
					keys = append(keys, r.Key)
				}
			}
			return keys
		}
		expected := removed()
		wanted := func(k kernel.RealKey) bool {
			return want.Reals.Has(k)
		}
		served := func(k kernel.RealKey) bool {
			return slices.ContainsFunc(want.Virtuals, func(v kernel.Virtual) bool { return v.Key == k.Virtual }) && slices.Contains(plan.Owned(&have, w.Memory.Owned), k.Virtual)
		}
		for _, r := range have.Reals.All() {
			if !rapid.Bool().Draw(t, "cut") {
				continue
			}
			want.Policy.Cut = append(want.Policy.Cut, r.Key)
			if served(r.Key) && !wanted(r.Key) && !slices.Contains(expected, r.Key) {
				expected = append(expected, r.Key)
			}
		}
		slices.SortFunc(expected, kernel.RealKey.Compare)
		if got := removed(); !slices.Equal(got, expected) {
			t.Fatalf("removed %v\nwant    %v\ncut %v", got, expected, want.Policy.Cut)
		}
	})
}

// Carrying a plan out on a reading gives the same as reading again, except for
// connections. It changes neither the old reading nor slices that it shares.
func TestAdvance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		a := world.Wanted(world.DrawTable(t, "a"))
		w.Sync(a)
		if rapid.Bool().Draw(t, "drift") {
			w.Drift()
		}
		w.DrawConns()
		have := w.Read()
		if p := w.Diff(a, have); p.Empty() {
			have, _ = plan.Applied(have, a, p)
			have.Fresh = rapid.Bool().Draw(t, "fresh")
		}
		before, wasWanted := have.String(), a.String()
		b := world.Wanted(world.DrawTable(t, "b"))
		b.Policy.Hold = rapid.Bool().Draw(t, "hold")
		p := w.Diff(b, have)
		if err := w.Kernel.Apply(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		want := w.Read()
		want.Fresh, want.Conns = false, nil
		check := func(how string, got kernel.Observed, ok bool) {
			if !ok {
				return
			}
			got.Chains = slices.DeleteFunc(slices.Clone(got.Chains), func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
			if got.String() != want.String() {
				t.Fatalf("%s:\n%s\nread:\n%s\nplan:\n%s", how, got, want, world.Text(p))
			}
		}
		advanced, ok := plan.Advance(have, p.Ops)
		check("advanced", advanced, ok)
		applied, ok := plan.Applied(have, b, p)
		check("applied", applied, ok)
		if have.String() != before || a.String() != wasWanted {
			t.Fatalf("was:\n%s\nis:\n%s", before, have)
		}
	})
}

// A set that was replaced by a larger one needs no reading, unless a temporary set of an earlier process was in the way.
func TestAdvanceReplacesSets(t *testing.T) {
	want := world.Large(10, 5)
	have := kernel.Observed{Names: kernel.DefaultNames, State: world.Large(10, 5)}
	for i := range have.Sets {
		have.Sets[i].MaxElem = 60
	}
	p := plan.Once(want, have)
	if !slices.ContainsFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindSwap }) {
		t.Fatalf("no set is replaced:\n%s", world.Text(p))
	}
	now, ok := plan.Advance(have, p.Ops)
	if rest := plan.Once(want, now); !ok || !rest.Empty() {
		t.Errorf("known %v, and left to do:\n%s", ok, world.Text(rest))
	}
	have.Sets = append(have.Sets, kernel.Set{Name: world.Names.TempSets() + "0", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 4})
	have.Sort()
	if _, ok := plan.Advance(have, plan.Once(want, have).Ops); ok {
		t.Error("known although a set of an earlier process was removed")
	}
}

// The ops that succeed while others are refused give the same as reading again, too, as far as the kernel need not tell.
func TestAdvanceAfterFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		have := w.Read()
		var b kernel.State
		if rapid.IntRange(0, 3).Draw(t, "cleanup") > 0 {
			b = world.Wanted(world.DrawTable(t, "b"))
		}
		b.Policy.Hold = rapid.Bool().Draw(t, "hold")
		p := w.Diff(b, have)
		refused := rapid.SliceOfN(rapid.IntRange(0, 3), len(p.Ops), len(p.Ops)).Draw(t, "refused")
		next := map[string]bool{}
		for i, o := range p.Ops {
			next[o.String()] = refused[i] == 0 && o.Object.Kind() != kernel.KindChain
		}
		w.Kernel.Fail = func(o kernel.Op) error {
			if next[o.String()] {
				return syscall.EINVAL
			}
			return nil
		}
		got, ok := plan.Advance(have, kernel.Done(p.Ops, w.Kernel.Apply(context.Background(), p)))
		if !ok {
			return
		}
		want := w.Read()
		want.Fresh, want.Conns = false, nil
		got.Chains = slices.DeleteFunc(slices.Clone(got.Chains), func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
		if got.String() != want.String() {
			t.Fatalf("advanced:\n%s\nread:\n%s\nplan:\n%s", got, want, world.Text(p))
		}
	})
}

// A reading that shares the slices of the wanted state gets the same plan as one with
// equal slices of its own.
func TestSharedSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		w.Sync(world.Wanted(world.DrawTable(t, "before")))
		w.DrawConns()
		table := world.DrawTable(t, "a")
		w.Sync(world.Wanted(table))
		for i := range table {
			if rapid.Bool().Draw(t, "other reals") {
				table[i].Reals = table[i].Reals[rapid.IntRange(0, len(table[i].Reals)).Draw(t, "gone"):]
			}
		}
		want := world.Wanted(table)
		have := w.Read()
		compared := w.Diff(want, have)
		share(&have.Sets, want.Sets)
		share(&have.Virtuals, want.Virtuals)
		if have.Entries.Equal(want.Entries) {
			have.Entries = want.Entries
		}
		if have.Reals.Equal(want.Reals) {
			have.Reals = want.Reals
		}
		share(&have.Addrs, want.Addrs)
		share(&have.Routes, want.Routes)
		if p := w.Diff(want, have); world.Text(p) != world.Text(compared) {
			t.Fatalf("plan:\n%s\nwith own slices:\n%s", world.Text(p), world.Text(compared))
		}
	})
}

// share makes equal slices the same one.
func share[T comparable](to *[]T, from []T) {
	if slices.Equal(*to, from) {
		*to = from
	}
}
