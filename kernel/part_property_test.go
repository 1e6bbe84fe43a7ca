package kernel_test

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
)

// TestPartsInTurn: from any drifted kernel, when each part has been checked in its
// turn, and all read where one differed, the state is the wanted one; and a check
// that finds its part as it was known plans nothing, whatever has drifted elsewhere.
func TestPartsInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, foreigners(t))
		want := wanted(drawTable(t, "a"))
		w.sync(want)
		w.settle(want)
		known := w.read()
		parts := kernel.Cut(&known.State, rapid.IntRange(1, 6).Draw(t, "parts"))
		w.drift()
		again := rapid.IntRange(0, len(parts)-1).Draw(t, "drifts again before")
		turn := append(slices.Clone(parts), parts[:again]...)
		for i, part := range turn {
			if i == again {
				w.drift()
			}
			same, err := w.kernel.Unchanged(context.Background(), &known, part)
			if err != nil {
				t.Fatal(err)
			}
			if !same {
				w.sync(want)
				known = w.read()
				continue
			}
			if p := kernel.Diff(want, known); !p.Empty() {
				t.Fatalf("part %d is as known, and yet there is something to do:\n%s", i, text(p))
			}
		}
		for _, part := range parts {
			if same, err := w.kernel.Unchanged(context.Background(), &known, part); !same || err != nil {
				t.Fatalf("after a turn a part is not as known: %v", err)
			}
		}
		if p := kernel.Diff(want, w.read()); !p.Empty() {
			t.Fatalf("after a turn there is something to do:\n%s", text(p))
		}
	})
}

// TestPartsFindWhatDiffers: what differs between two readings differs in some part
// of any cut of any state, and what does not in none.
func TestPartsFindWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, foreigners(t))
		w.sync(wanted(drawTable(t, "a")))
		before := w.read()
		if rapid.Bool().Draw(t, "drift") {
			w.drift()
		} else {
			w.sync(wanted(drawTable(t, "b")))
		}
		after := w.read()
		other := wanted(drawTable(t, "another"))
		differs := false
		for _, part := range kernel.Cut(&other, rapid.IntRange(1, 6).Draw(t, "parts")) {
			differs = differs || !part.Same(&before, &after)
		}
		if equal := before.State.String() == after.State.String(); equal == differs {
			t.Fatalf("equal %v, but some part differs %v:\n%s\n%s", equal, differs, before, after)
		}
	})
}
