package plan_test

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// Each shard of a drifted kernel is verified in turn, and everything is read where one
// differs. Then the state is the wanted one. While a shard is as known nothing is
// planned, whatever has drifted elsewhere.
func TestShardsInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		want := world.Wanted(world.DrawTable(t, "a"))
		w.Sync(want)
		w.Converge(want)
		known := w.Read()
		shards := plan.Cut(&known.State, rapid.IntRange(1, 6).Draw(t, "shards"))
		w.Drift()
		again := rapid.IntRange(0, len(shards)-1).Draw(t, "drifts again before")
		turn := append(slices.Clone(shards), shards[:again]...)
		for i, shard := range turn {
			if i == again {
				w.Drift()
			}
			same, err := w.Kernel.Verify(context.Background(), &known, shard)
			if err != nil {
				t.Fatal(err)
			}
			if !same {
				w.Sync(want)
				known = w.Read()
				continue
			}
			if p := w.Diff(want, known); !p.Empty() {
				t.Fatalf("shard %d is as known, and yet there is something to do:\n%s", i, world.Text(p))
			}
		}
		for _, shard := range shards {
			if same, err := w.Kernel.Verify(context.Background(), &known, shard); !same || err != nil {
				t.Fatalf("after a turn a shard is not as known: %v", err)
			}
		}
		if p := w.Diff(want, w.Read()); !p.Empty() {
			t.Fatalf("after a turn there is something to do:\n%s", world.Text(p))
		}
	})
}

// A difference between two readings is in some shard of any cut, and equal readings
// differ in none.
func TestShardsFindWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(t, world.Foreigners(t))
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		before := w.Read()
		if rapid.Bool().Draw(t, "drift") {
			w.Drift()
		} else {
			w.Sync(world.Wanted(world.DrawTable(t, "b")))
		}
		after := w.Read()
		other := world.Wanted(world.DrawTable(t, "another"))
		differs := false
		for _, shard := range plan.Cut(&other, rapid.IntRange(1, 6).Draw(t, "shards")) {
			differs = differs || !shard.Same(&before, &after)
		}
		if equal := before.State.String() == after.State.String(); equal == differs {
			t.Fatalf("equal %v, but some shard differs %v:\n%s\n%s", equal, differs, before, after)
		}
	})
}
