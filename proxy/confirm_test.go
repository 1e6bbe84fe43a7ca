package proxy_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Confirm does not return the result of a sync that began before the tables were
// emitted, even if it ends after the call.
func TestConfirmWaitsForWhatWasEmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		r := start(t, func(r *run) {
			r.options.Rules = func(s sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				if slow.Load() {
					time.Sleep(time.Second)
				}
				return rules(s, n, occupied)
			}
		})
		defer r.end()
		r.emit(table(1))
		for i := range 30 {
			slow.Store(true)
			r.proxy.Check(proxy.CauseNode)
			pass(time.Duration(i+1) * time.Millisecond) // a sync goes on, with the table before
			want := 2 + i%2
			r.source <- emission{table: table(want)}
			slow.Store(false)
			s, err := r.proxy.Confirm(t.Context())
			if got := len(r.weights()); err != nil || s.Report.Err != nil || got != want {
				t.Fatalf("round %d: %d real servers when it returned, want %d: %v", i, got, want, err)
			}
			if !s.Report.Causes.Has(proxy.CauseAsked) || s.Report.Steps != 0 || !s.Report.Full {
				t.Fatalf("round %d: not verified after it was programmed: %+v", i, s.Report)
			}
		}
	})
}

// Confirm reports what fails three times, and not what succeeds at the second try.
func TestConfirmTellsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusals atomic.Int32
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal && refusals.Add(-1) >= 0 {
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(1))
		refusals.Store(2)
		r.source <- emission{table: table(2)}
		if s, err := r.proxy.Confirm(t.Context()); err != nil || s.Report.Err != nil || len(r.weights()) != 2 {
			t.Errorf("a fault that passes: %v, %v", s.Report.Err, err)
		}
		refusals.Store(1 << 20)
		r.source <- emission{table: table(3)}
		began := time.Now()
		s, err := r.proxy.Confirm(t.Context())
		if err != nil || !errors.Is(s.Report.Err, syscall.EPERM) || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %v, %v", time.Since(began), s.Report.Err, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := r.proxy.Confirm(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond the time there is: %v", err)
		}
		refusals.Store(0)
	})
}

// departing is an announcer with a VIP that was withdrawn and goes at a time. The loop asks it while the test sets it.
type departing struct {
	mu    sync.Mutex
	until time.Time
	stays bool // after that time, too: it waits for a source
}

func (d *departing) set(until time.Time, stays bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until, d.stays = until, stays
}

func (d *departing) Keep(m sources.Merged, _ *kernel.Observed) sources.Merged { return m }

func (d *departing) Announce(
	*frontend.Frontends, *kernel.State, *kernel.Observed, kernel.Now,
) (out announce.Decision, wake time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	soon := time.Now().Before(d.until)
	if soon || d.stays {
		out.VIPs = []announce.VIP{{Addr: vip(0), Until: d.until}}
	}
	if soon {
		wake = d.until
	}
	return out, wake
}

// Confirm waits for a VIP that goes soon, and not for one that goes later or waits for a source.
func TestConfirmWaitsForDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d departing
		r := start(t, func(r *run) { r.options.Announcer = &d })
		defer r.end()
		r.emit(table(1))
		for wait, min := range map[time.Duration]time.Duration{10 * time.Second: 10 * time.Second, 10 * time.Minute: 0} {
			began := time.Now()
			d.set(began.Add(wait), false)
			s, err := r.proxy.Confirm(t.Context())
			if took := time.Since(began); err != nil || took < min || took > min+5*time.Second || (len(s.Announced) == 0) != (min > 0) {
				t.Errorf("a VIP goes after %s: confirmed after %s with %v: %v", wait, took, s.Announced, err)
			}
			d.set(time.Time{}, false)
			pass(time.Hour)
		}
		d.set(time.Now().Add(-time.Second), true)
		began := time.Now()
		s, err := r.proxy.Confirm(t.Context())
		if took := time.Since(began); err != nil || took > 5*time.Second || len(s.Announced) != 1 {
			t.Errorf("a VIP waits for a source: confirmed after %s with %v: %v", took, s.Announced, err)
		}
	})
}
