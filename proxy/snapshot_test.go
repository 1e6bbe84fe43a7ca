package proxy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// A caller of Check can wait for its result.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.stop()
		r.emit(table(1))
		if s := r.proxy.Snapshot(); s == nil || !s.Report.Causes.Has(proxy.CauseStart) || s.Succeeded.IsZero() {
			t.Fatalf("after the first sync: %+v", s)
		}
		began := time.Now()
		r.proxy.Check(proxy.CauseAsked)
		if s, err := r.proxy.Await(t.Context(), began); err != nil || !s.Report.Causes.Has(proxy.CauseAsked) {
			t.Errorf("%+v, %v", s, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s, err := r.proxy.Await(ctx, time.Now().Add(time.Second/2)); err == nil {
			t.Errorf("a sync that was not requested: %+v", s.Report)
		}
	})
}

// A running loop has the periods that were set last.
func TestSetPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.stop()
		r.emit(table(1))
		r.proxy.SetPeriods(time.Hour, 0)
		r.proxy.SetPeriods(time.Minute, 0)
		pass(59 * time.Second)
		before := len(r.all())
		pass(2 * time.Second)
		if after := len(r.all()); before != 1 || after != 2 {
			t.Errorf("%d syncs within a minute, %d after it", before, after)
		}
	})
}

// A source that delivers during a sync is not part of that sync, which therefore still
// waits for it.
func TestWaitingIsAsOfTheTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *run
		delivered := false
		r = start(t, func(r *run) {
			r.options.Rules = func(s sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				if !delivered {
					delivered = true
					r.source <- emission{table: table(1)}
					synctest.Wait()
				}
				return rules(s, n, occupied)
			}
		})
		defer r.stop()
		pass(time.Minute)
		all := r.all()
		if len(all) < 2 || len(all[0].Waiting) != 1 || all[0].Services != 0 || len(all[1].Waiting) != 0 || all[1].Services != 1 {
			t.Errorf("%+v", all)
		}
	})
}
