package plan_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// Owned virtual servers that exist are remembered, foreign ones never.
func TestMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		w := world.New(t, foreign)
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		o, owned := w.Read(), w.Memory.Owned
		made := plan.Made(&o, owned)
		for _, v := range o.Virtuals {
			if slices.Contains(made, v) == slices.Contains(foreign.Virtuals, v) {
				t.Fatalf("%s: remembered %v", v, slices.Contains(made, v))
			}
		}
		b := world.Wanted(world.DrawTable(t, "b"))
		making := plan.Making(&o, owned, w.Diff(b, o).Ops)
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
		o.Record.Made, o.Record.Digests = made, plan.Digests(&o, owned)
		o.Entries = o.Entries.Where(func(e kernel.Entry) bool { return !strings.HasSuffix(e.Set, string(kernel.VirtualServer)) })
		if again := plan.Made(&o, nil); !slices.Equal(again, made) {
			t.Fatalf("by the record %v, want %v", again, made)
		}
	})
}

// Programs that forward directly make the virtual servers that svcproxy makes. So without the ownership set, one that
// does not masquerade is ours only if its real servers are as svcproxy left them.
func TestRecordOfDirectVirtualServers(t *testing.T) {
	const virtual = "-A -t 10.96.0.1:80 -s rr\n"
	const one, two = "-a -t 10.96.0.1:80 -r 10.2.0.1:80 -g -w 1\n", "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -i -w 1\n"
	made := parsed(t, virtual+one+two)
	owned := []kernel.VirtualKey{made.Virtuals[0].Key}
	record := kernel.Record{Made: plan.Made(&made, owned), Digests: plan.Digests(&made, owned)}
	if len(record.Made) != 1 || len(record.Digests) != 1 {
		t.Fatalf("recorded %+v", record)
	}
	for _, c := range []struct {
		name, have string
		owned      bool
	}{
		{"as it was made", virtual + two + one, true},
		{"with another weight", virtual + one + "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -i -w 2\n", false},
		{"with another server", virtual + one + two + "-a -t 10.96.0.1:80 -r 10.2.0.3:80 -g -w 1\n", false},
		{"with another method", virtual + one + "-a -t 10.96.0.1:80 -r 10.2.0.2:80 -g -w 1\n", false},
		{"with another scheduler", "-A -t 10.96.0.1:80 -s wlc\n" + one + two, false},
		{"masquerading", virtual + "-a -t 10.96.0.1:80 -r 10.2.0.1:80 -m -w 1\n", true},
	} {
		have := parsed(t, c.have)
		have.Record = record
		text := parsed(t, have.String()) // the record is part of the text
		for _, o := range []kernel.Observed{have, text} {
			if owned := len(plan.Owned(&o, nil)) == 1; owned != c.owned {
				t.Errorf("%s: owned %v", c.name, owned)
			}
		}
	}
}
