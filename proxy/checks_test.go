package proxy_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy"
)

// Each check is of the next shard, so drift is found within a period. After drift all of
// the kernel is read.
func TestLargeKernelIsCheckedInShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(many(2000, 5))
		r.kernel.Forget()
		pass(5 * time.Minute)
		parts := r.kernel.Shards()
		n := len(parts) / 10
		if n < 3 || len(parts) != 10*n {
			t.Fatalf("%d checks in 10 periods", len(parts))
		}
		for i, p := range parts[n:] {
			if p != parts[i] {
				t.Fatalf("check %d is of another part than the one a period before", n+i)
			}
		}
		reads, writes := r.kernel.Counts()
		if reads != 1 || writes == 0 {
			t.Fatalf("%d readings, %d writes", reads, writes)
		}

		gone := r.kernel.State().Reals.Slice()[0]
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: gone}}}); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if again := r.kernel.State().Reals.Slice()[0]; again != gone {
			t.Errorf("drift is not repaired after a period: %v", again)
		}
		if reads, now := r.kernel.Counts(); reads != 2 || now != writes+2 {
			t.Errorf("%d readings and %d writes, want 2 and the repair", reads, now-writes)
		}
		// What differed once is checked as one after a period, then in parts again.
		r.kernel.Forget()
		pass(time.Minute)
		if got := r.kernel.Shards(); len(got) < 2 || got[0] != plan.Everything || got[1] != parts[0] {
			t.Errorf("after drift %v was checked, want everything and then the parts from the first", got)
		}
	})
}

// A requested check is of everything, whichever shard is next.
func TestEverythingIsCheckedOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(many(2000, 5))
		pass(11 * time.Second)
		r.kernel.Forget()
		r.proxy.Check(proxy.CauseAsked)
		pass(time.Millisecond)
		if got := r.kernel.Shards(); len(got) != 1 || got[0] != plan.Everything || !r.last().Full {
			t.Errorf("checks %v, full %v", got, r.last().Full)
		}
	})
}

func TestDriftIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		gone := r.kernel.State()
		var ops []kernel.Op
		for _, v := range gone.Virtuals {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: v})
		}
		for e := range gone.Entries.All() {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: e})
		}
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: ops}); err != nil {
			t.Fatal(err)
		}
		pass(31 * time.Second)
		if got := r.kernel.State().String(); got != gone.String() {
			t.Errorf("after drift:\n%s\nwant:\n%s", got, gone)
		}
		if !slices.ContainsFunc(r.all(), proxy.Report.Drift) {
			t.Error("no report tells of drift")
		}
	})
}

// Another program's firewall that keeps clients away is a warning while it does, logged
// once.
func TestFirewallInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) { r.options.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer r.end()
		r.kernel.SetFirewall([]kernel.BaseChain{{Family: kernel.IPv4, Hook: "input", Policy: "drop", Name: "iptables filter INPUT", Rules: "-i lo -j ACCEPT"}})
		r.emit(table(1))
		const want = "iptables filter INPUT: no rule accepts -t 10.96.0.1:80, it is left to drop"
		if got := r.proxy.Snapshot().Warnings; !slices.Equal(got, []string{want}) {
			t.Errorf("warnings %q", got)
		}
		pass(2 * time.Minute)
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, &log)
		}
		r.kernel.SetFirewall(nil)
		pass(time.Minute)
		if got := r.proxy.Snapshot().Warnings; len(got) != 0 || !strings.Contains(log.String(), "nothing is in the way any more") {
			t.Errorf("warnings %q when it is gone, log:\n%s", got, &log)
		}
	})
}
