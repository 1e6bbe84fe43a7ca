package health

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// TestVerdictsFollowEvents: who applies all events to a copy of the verdicts decides as the board would. A target that
// is held was up before, and none is once the time is over.
func TestVerdictsFollowEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check := standard()
		check.Probe.Type, check.Fall, check.Rise = sources.CheckTCP, 1, 1
		table := sized(4, 2, &check)
		targets := Targets(table)
		var b Board
		b.Believe = rapid.Bool().Draw(t, "believe")
		b.SetTargets(targets, nil, epoch)
		follower, now := b.Verdicts(), epoch
		for range rapid.IntRange(0, 60).Draw(t, "results") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			var events []Event
			switch rapid.IntRange(0, 13).Draw(t, "what") {
			case 0:
				now = now.Add(time.Minute)
				events = b.Tick(now)
			case 1:
				b.Believe = !b.Believe
				events = b.Tick(now)
			case 2:
				kept := targets[rapid.IntRange(0, len(targets)-1).Draw(t, "first"):]
				events = append(b.SetTargets(kept, nil, now), b.SetTargets(targets, nil, now)...)
			default:
				r := Result{Good: rapid.IntRange(0, 2).Draw(t, "good") == 0, Void: rapid.IntRange(0, 5).Draw(t, "void") == 0, At: now, Reason: "r"}
				events = b.Record(rapid.SampledFrom(targets).Draw(t, "target").Key, r)
			}
			for _, e := range events {
				if e.Kind == IsHeld && !e.Verdict.Phase.IsDown() || b.Believe && e.Kind == IsHeld {
					t.Fatal(e)
				}
			}
			follower.Apply(events)
			consistent(t, &b, follower)
		}
		follower.Apply(b.Record(targets[0].Key, Result{Good: true, At: now}))
		follower.Apply(b.Tick(now.Add(2 * massHold)))
		for k, v := range follower.Of {
			if v.Held {
				t.Fatalf("%s is held for ever", k)
			}
		}
	})
}

// consistent holds a follower, and the counters of the board, to its states.
func consistent(t *rapid.T, b *Board, follower Verdicts) {
	want := mass{services: map[int32]*tally{}, authors: map[author]*tally{}}
	for k, x := range b.targets {
		if f := follower.Of[k]; f.Serves(true) != x.Verdict.Serves(true) {
			t.Fatalf("%s: the follower has %s, the board %s", k, f.Phase, x.Phase)
		}
		if x.Phase.IsUp() || !x.fell.IsZero() {
			want.targets.add(1, !x.Phase.IsUp())
			for _, s := range x.services {
				if want.services[s.index] == nil {
					want.services[s.index] = &tally{author: s.author}
				}
				want.services[s.index].add(1, !x.Phase.IsUp())
			}
		}
	}
	if len(follower.Of) > len(b.targets) {
		t.Fatalf("the follower has %d targets, the board %d", len(follower.Of), len(b.targets))
	}
	if follower.Blind != b.sight.void {
		t.Fatalf("the follower is blind: %v", follower.Blind)
	}
	for _, s := range want.services {
		if want.authors[s.author] == nil {
			want.authors[s.author] = &tally{}
		}
		want.authors[s.author].add(1, s.failed())
		want.served.add(1, s.failed())
	}
	for _, a := range want.authors {
		want.wrote.add(1, a.failed())
	}
	same := func(a, b *tally) bool { return *a == *b }
	if m := &b.mass; m.targets != want.targets || m.served != want.served || m.wrote != want.wrote ||
		!maps.EqualFunc(m.services, want.services, same) || !maps.EqualFunc(m.authors, want.authors, same) {
		t.Fatalf("counted %+v, want %+v", *m, want)
	}
}

// TestSetTargets: what was there keeps its state, what is gone is forgotten, and its results count for nothing.
func TestSetTargets(t *testing.T) {
	check := standard()
	check.Probe.Type = sources.CheckTCP
	targets := Targets(sized(1, 3, &check))
	var b Board
	events := b.SetTargets(targets[:2], map[Key]Verdict{targets[0].Key: {State: State{Phase: Down}}}, epoch)
	if len(events) != 1 || events[0].Kind != IsAdded || events[0].Verdict.Phase != Down {
		t.Errorf("%v", events)
	}
	b.Record(targets[1].Key, Result{Good: true, At: epoch})
	events = b.SetTargets(targets[1:], map[Key]Verdict{targets[1].Key: {State: State{Phase: Down}}, targets[2].Key: {State: State{Phase: Up}}}, epoch)
	if len(events) != 2 || events[0].Key != targets[2].Key || events[1].Kind != IsGone {
		t.Errorf("%v", events)
	}
	got := []Phase{b.Verdict(targets[0].Key).Phase, b.Verdict(targets[1].Key).Phase, b.Verdict(targets[2].Key).Phase}
	if fmt.Sprint(got) != "[unknown up up]" {
		t.Error(got)
	}
	if events := b.Record(targets[0].Key, Result{At: epoch}); events != nil || len(b.Verdicts().Of) != 2 {
		t.Errorf("%v", events)
	}
	if d, _ := b.Next(targets[0].Key); d != 0 {
		t.Error("a target that is gone is due")
	}
	if d, down := b.Next(targets[1].Key); down || d != check.Interval {
		t.Error(d)
	}
}

// TestKernelStatesAreNoMassFailure: after a restart in a panic the kernel gives all endpoints connections, and so all count
// as up. That they fail again is no news of this node's network.
func TestKernelStatesAreNoMassFailure(t *testing.T) {
	check := standard()
	check.Probe.Type, check.Fall = sources.CheckTCP, 1
	targets := Targets(sized(4, 3, &check))
	for _, proven := range []bool{false, true} {
		var b Board
		initial := map[Key]Verdict{}
		for _, x := range targets {
			initial[x.Key] = Verdict{State: State{Phase: Up}}
		}
		b.SetTargets(targets, initial, epoch)
		var events []Event
		for _, x := range targets {
			if proven {
				b.Record(x.Key, Result{Good: true, At: epoch})
			}
		}
		for _, x := range targets {
			events = append(events, b.Record(x.Key, Result{At: epoch.Add(time.Second)})...)
		}
		if failed := slices.ContainsFunc(events, func(e Event) bool { return e.Kind == MassFailure }); failed != proven {
			t.Errorf("with good results before: %t, a mass failure: %t", proven, failed)
		}
	}
}

// TestEditWhileHeld: an edit of the checks while a mass failure is held moves no connection. What was held stays so until
// the hold is over, and what fails only by its new check is held as well.
func TestEditWhileHeld(t *testing.T) {
	check := standard()
	check.Probe.Type, check.Fall, check.OnAllDown = sources.CheckTCP, 1, sources.AllDownClosed
	edited := check
	edited.Probe.Timeout = time.Second
	before, after := sized(3, 2, &check), sized(3, 2, &edited)
	for _, failed := range []int{4, 6} {
		var b Board
		targets := Targets(before)
		b.SetTargets(targets, nil, epoch)
		for _, x := range targets {
			b.Record(x.Key, Result{Good: true, At: epoch})
		}
		now := epoch.Add(time.Second)
		for _, i := range []int{0, 2, 4, 1, 3, 5}[:failed] {
			b.Record(targets[i].Key, Result{At: now})
		}
		follower := b.Verdicts()
		follower.Apply(b.SetTargets(Targets(after), b.Inherited(before, after), now))
		if got, want := serving(after, follower, now), serving(before, follower, now); b.Holding().IsZero() || got != 6 || want != 6 {
			t.Errorf("%d failed: %d endpoints serve, want 6; held until %s", failed, got, b.Holding())
		}
		for _, x := range Targets(after) {
			follower.Apply(b.Record(x.Key, Result{At: now}))
		}
		if got := serving(after, follower, now); got != 6 {
			t.Errorf("%d failed: %d endpoints serve after the first results, want 6", failed, got)
		}
		over := b.Holding()
		if follower.Apply(b.Tick(over)); serving(after, follower, over) != 0 {
			t.Errorf("%d failed: %d endpoints serve after the hold", failed, serving(after, follower, over))
		}
	}
}

// A hold that ends between Inherited and SetTargets leaves nothing held: no Tick would release it.
func TestEditAfterHold(t *testing.T) {
	check := standard()
	check.Probe.Type, check.Fall = sources.CheckTCP, 1
	edited := check
	edited.Probe.Timeout = time.Second
	before, after := sized(3, 2, &check), sized(3, 2, &edited)
	var b Board
	b.SetTargets(Targets(before), nil, epoch)
	for _, good := range []bool{true, false} {
		for _, x := range Targets(before) {
			b.Record(x.Key, Result{Good: good, At: epoch})
		}
	}
	inherited := b.Inherited(before, after)
	b.Tick(b.Holding())
	b.SetTargets(Targets(after), inherited, epoch.Add(massHold))
	for k, v := range b.Verdicts().Of {
		if v.Held || v.Phase != Down {
			t.Errorf("%s: %s, held: %t", k, v.Phase, v.Held)
		}
	}
}

// serving counts the endpoints that get connections.
func serving(t sources.Table, v Verdicts, now time.Time) (n int) {
	out := Overlay(t, Known{Verdicts: v}, now)
	for i := range out.Services.Len() {
		for _, e := range out.Services.At(i).Endpoints {
			if e.Weight > 0 {
				n++
			}
		}
	}
	return n
}

// TestSeesWithoutTargets: a board that was blind because of void results sees again when no target is left.
func TestSeesWithoutTargets(t *testing.T) {
	check := standard()
	check.Probe.Type = sources.CheckTCP
	targets := Targets(sized(1, 1, &check))
	var b Board
	b.SetTargets(targets, nil, epoch)
	for i := range blindLeast {
		b.Record(targets[0].Key, Result{Void: true, Reason: "not a program of root's", At: epoch.Add(time.Duration(i) * blindAfter)})
	}
	if b.Blind() == "" {
		t.Fatal("not blind")
	}
	events := b.SetTargets(nil, nil, epoch.Add(time.Minute))
	if last := events[len(events)-1]; b.Blind() != "" || last.Kind != SeesAgain {
		t.Errorf("%q, %v", b.Blind(), events)
	}
}

// TestChangedTargets: taking over what differs between two tables gives the same targets, users, paces and counters as
// taking over all.
func TestChangedTargets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slow, fast := standard(), standard()
		slow.Probe.Type, fast.Probe.Type = sources.CheckTCP, sources.CheckTCP
		slow.Fall, fast.Fall, fast.Interval = 1, 1, fast.Interval/2
		table := sized(4, 3, &slow)
		table.Services.At(1).HealthCheck = &fast // the same probe, so services share targets
		var few, all Board
		few.SetTargets(Targets(table), nil, epoch)
		all.SetTargets(Targets(table), nil, epoch)
		for now := epoch; now.Before(epoch.Add(10 * time.Second)); now = now.Add(time.Second) {
			changed := rapid.SliceOfNDistinct(rapid.Int32Range(0, 3), 0, 2, rapid.ID[int32]).Draw(t, "changed")
			slices.Sort(changed)
			next := withEndpoints(t, table, changed)
			targets, gone := few.Changed(table, next, changed)
			got, want := few.Update(targets, gone, nil, now), all.SetTargets(Targets(next), nil, now)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("events %v, want %v", got, want)
			}
			table = next
			for _, x := range Targets(table) {
				r := Result{Good: rapid.Bool().Draw(t, "good"), At: now}
				few.Record(x.Key, r)
				all.Record(x.Key, r)
			}
			consistent(t, &few, few.Verdicts())
			sameBoards(t, &few, &all, table)
		}
	})
}

// withEndpoints returns a table whose services at some indexes have endpoints of all services.
func withEndpoints(t *rapid.T, table sources.Table, at []int32) sources.Table {
	indexes := make([]int, len(at))
	for i := range at {
		indexes[i] = int(at[i])
	}
	return sources.Table{Services: table.Services.With(indexes, func(i int) sources.Service {
		s := *table.Services.At(i)
		of := table.Services.At(rapid.IntRange(0, 3).Draw(t, "endpoints of"))
		s.Endpoints = slices.Concat(of.Endpoints[:rapid.IntRange(0, len(of.Endpoints)).Draw(t, "endpoints")])
		return s
	})}
}

// sameBoards holds a board to another one that has the same targets.
func sameBoards(t *rapid.T, a, b *Board, table sources.Table) {
	if len(a.targets) != len(b.targets) || a.mass.targets.up != b.mass.targets.up {
		t.Fatalf("%d targets, %+v, want %d, %+v", len(a.targets), a.mass.targets, len(b.targets), b.mass.targets)
	}
	for k, x := range a.targets {
		y := b.targets[k]
		if y == nil || x.pace != y.pace || !slices.Equal(x.services, y.services) || x.Verdict.Phase != y.Verdict.Phase {
			t.Fatalf("%s: %+v, want %+v", k, x, y)
		}
		if got, want := a.ServicesOf(table, k), b.ServicesOf(table, k); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", k, got, want)
		}
	}
}

// BenchmarkMassFailure: all of 25,000 targets go down. Each of them costs the same.
func BenchmarkMassFailure(b *testing.B) {
	check := standard()
	check.Probe.Type, check.Fall = sources.CheckTCP, 1
	targets := Targets(sized(5000, 5, &check))
	for b.Loop() {
		var board Board
		board.SetTargets(targets, nil, epoch)
		for _, good := range []bool{true, false} {
			for i := range targets {
				board.Record(targets[i].Key, Result{Good: good, At: epoch})
			}
		}
		if !board.mass.holding() {
			b.Fatal("not noticed")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*len(targets)), "ns/result")
}

// An event tells how many results in a row led to it.
func TestEventsCountResults(t *testing.T) {
	check := standard()
	check.Probe.Type, check.Fall, check.Rise = sources.CheckTCP, 3, 2
	targets := Targets(sized(1, 1, &check))
	var b Board
	b.SetTargets(targets, nil, epoch)
	var got []int
	for i, good := range []bool{true, false, false, false, true, true} {
		for _, e := range b.Record(targets[0].Key, Result{Good: good, At: epoch.Add(time.Duration(i) * time.Second)}) {
			got = append(got, e.Run)
		}
	}
	if want := []int{0, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
