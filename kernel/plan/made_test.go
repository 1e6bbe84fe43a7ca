package plan_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest/world"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// Owned virtual servers that exist are remembered, foreign ones never.
func TestMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		w := world.New(t, foreign)
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		o := w.Read()
		made := plan.Made(&o)
		for _, v := range o.Virtuals {
			if slices.Contains(made, v) == slices.Contains(foreign.Virtuals, v) {
				t.Fatalf("%s: remembered %v", v, slices.Contains(made, v))
			}
		}
		b := world.Wanted(world.DrawTable(t, "b"))
		making := plan.Making(&o, plan.Diff(b, o).Ops)
		for _, v := range making {
			if !slices.Contains(made, v) && !slices.Contains(b.Virtuals, v) {
				t.Fatalf("%s is neither ours nor wanted", v)
			}
		}
		w.Sync(b)
		for _, v := range b.Virtuals {
			// What was owned and did not change is in made.
			if making != nil && !slices.Contains(making, v) && !slices.ContainsFunc(foreign.Virtuals, func(f kernel.Virtual) bool { return f.Key == v.Key }) {
				t.Fatalf("%s was made and not foreseen", v)
			}
		}
		// With an empty ownership set the record alone gives the same.
		o.Owned, o.Record.Made = nil, made
		o.Entries = slices.DeleteFunc(o.Entries, func(e kernel.Entry) bool { return strings.HasSuffix(e.Set, string(kernel.VirtualServer)) })
		if again := plan.Made(&o); !slices.Equal(again, made) {
			t.Fatalf("by the record %v, want %v", again, made)
		}
	})
}
