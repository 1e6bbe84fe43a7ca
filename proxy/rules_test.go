package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy"
)

// When another program changed rules, they are checked at once and nothing else is. If ours differ, they are
// repaired, and the report names the program. Its changes a hundred times a second cost about one check in a second.
func TestRulesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.SyncPeriod = time.Hour })
		defer r.end()
		r.emit(table(2))
		r.kernel.Forget()
		_, writes := r.kernel.Counts()

		r.proxy.RulesChanged([]string{"nft (pid 7)"})
		pass(time.Millisecond)
		if got := r.kernel.Shards(); len(got) != 1 || got[0] != (plan.Shard{}) {
			t.Errorf("after a change %v was checked, want the rules", got)
		}
		if last := r.last(); !last.Causes.Has(proxy.CauseRules) || last.Drift() || last.Checked || last.By != "nft (pid 7)" {
			t.Errorf("nothing of ours changed, and the report is %+v", last)
		}
		if _, now := r.kernel.Counts(); now != writes {
			t.Errorf("%d writes", now-writes)
		}

		ours := kernel.Chain{Family: kernel.IPv4, Table: "nat", Name: "KUBE-SERVICES"}
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Add, Object: ours}}}); err != nil {
			t.Fatal(err)
		}
		r.proxy.RulesChanged([]string{"nft (pid 8)", ""})
		r.proxy.RulesChanged([]string{"nft (pid 8)", "a (pid 9)", "b (pid 10)", "c (pid 11)"})
		pass(time.Millisecond)
		if last := r.last(); !last.Drift() || last.By != "nft (pid 8), a (pid 9), b (pid 10)" {
			t.Errorf("drift %t, by %q", last.Drift(), last.By)
		}

		pass(time.Minute)
		r.kernel.Forget()
		for range 20 * 100 {
			r.proxy.RulesChanged([]string{"nft (pid 12)"})
			pass(10 * time.Millisecond)
		}
		if n := len(r.kernel.Shards()); n < 20 || n > 20+25 {
			t.Errorf("%d checks in 20 s", n)
		}
	})
}
