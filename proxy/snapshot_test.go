package proxy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
)

// Who asks for a check can wait for what became of it.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.stop()
		r.emit(table(1))
		if s := r.proxy.Snapshot(); s == nil || s.Report.Cause != proxy.CauseStart || s.Succeeded.IsZero() {
			t.Fatalf("after the first sync: %+v", s)
		}
		began := time.Now()
		r.proxy.Check(proxy.CauseAsked)
		if s, err := r.proxy.Await(t.Context(), began); err != nil || s.Report.Cause != proxy.CauseAsked {
			t.Errorf("%+v, %v", s, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s, err := r.proxy.Await(ctx, time.Now().Add(time.Second/2)); err == nil {
			t.Errorf("a sync that nobody asked for: %+v", s.Report)
		}
	})
}

// The periods of a running loop are those that were set last.
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
