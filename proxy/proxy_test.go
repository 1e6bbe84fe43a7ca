package proxy_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
)

func TestChangesAreProgrammedFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(1))
		r.emit(table(2))
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		if reads, _ := r.kernel.Counts(); reads != 1 {
			t.Errorf("%d readings of the kernel for a start and a change, want 1", reads)
		}
		if c := r.last().Causes.First(); c != proxy.CauseTable {
			t.Errorf("cause %q", c)
		}
	})
}

func TestIdleWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(3))
		_, before := r.kernel.Counts()
		pass(5 * time.Minute)
		reads, after := r.kernel.Counts()
		if after != before {
			t.Errorf("%d writes while idle", after-before)
		}
		if checks := len(r.kernel.Shards()); reads != 1 || checks != 10 {
			t.Errorf("%d readings and %d checks in 5 minutes with a syncPeriod of 30s, want 1 and 10", reads, checks)
		}
	})
}

func TestBurstsAreOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.MinSyncPeriod = time.Second })
		defer r.end()
		r.emit(table(1))
		for i := range 100 {
			r.source <- emission{table: table(i % 5)}
			pass(time.Millisecond)
		}
		pass(2 * time.Second)
		if n := len(r.all()); n > 3 {
			t.Errorf("%d syncs for a burst of 100 tables within minSyncPeriod", n)
		}
		if got := r.weights(); len(got) != 4 {
			t.Errorf("%d real servers, want the last table's 4", len(got))
		}
	})
}

func TestStopLeavesTheKernelServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.emit(table(2))
		before := r.kernel.State().String()
		r.end()
		if got := r.kernel.State().String(); got != before {
			t.Errorf("after the stop:\n%s\nbefore:\n%s", got, before)
		}
	})
}
