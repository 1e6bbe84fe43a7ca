package proxy_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

// alive calls Alive as proxy/daemon does.
func alive(t *testing.T, p *proxy.Proxy) bool {
	asking, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.Alive(asking)
}

// A sync of many steps may take minutes on a loaded machine. It is alive while the
// kernel answers, and not if it hangs in one step.
func TestLongSyncWithProgressIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := 4 * time.Second
		var log bytes.Buffer
		r := start(t, func(r *run) {
			r.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal {
					time.Sleep(step)
				}
				return nil
			}
		})
		r.source <- emission{table: table(50)}
		pass(time.Millisecond)
		for i := range 15 {
			if !alive(t, r.proxy) {
				t.Fatalf("taken for hung after %d questions", i)
			}
		}
		if now := r.proxy.Running(); now == nil || now.Cause != proxy.CauseStart || now.Of != 53 || now.Done < 30 {
			t.Errorf("it says that it is at %+v", now)
		}
		pass(3 * time.Minute)
		if n := strings.Count(log.String(), "a sync takes long"); n < 15 || n > 25 {
			t.Errorf("said %d times that it takes long:\n%s", n, log.String())
		}
		if now := r.proxy.Running(); now != nil {
			t.Errorf("between two syncs: %+v", now)
		}
		step = time.Hour
		r.source <- emission{table: table(51)}
		pass(time.Millisecond)
		if alive(t, r.proxy) {
			t.Error("a loop that is stuck in one step is alive")
		}
		r.stop()
		pass(2 * time.Hour)
		<-r.done
	})
}

// An object that another program removes is back within 2 seconds, long before the next
// full check. If another program keeps changing its own objects, quick checks become rare.
func TestQuickCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		whole := r.kernel.State()
		var ops []kernel.Op
		for _, v := range whole.Virtuals {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: v})
		}
		pass(10 * time.Second)
		apply(t, r, ops...)
		pass(2 * time.Second)
		if got := r.kernel.State().String(); got != whole.String() {
			t.Errorf("2 s after all was removed:\n%s", got)
		}
		if last := r.all()[len(r.all())-1]; !last.Drift() || !last.Causes.Has(proxy.CausePeriod) {
			t.Errorf("no drift in %+v", last)
		}
		reads, _ := r.kernel.Counts()
		foreign := kernel.Virtual{Key: kernel.VirtualAt(netip.MustParseAddrPort("192.0.2.9:80"), kernel.TCP), Scheduler: "rr", Netmask: 32}
		for i := range 120 {
			verb := kernel.Add
			if i%2 == 1 {
				verb = kernel.Remove
			}
			apply(t, r, kernel.Op{Verb: verb, Object: foreign})
			pass(time.Second)
		}
		if now, _ := r.kernel.Counts(); now-reads > 20 {
			t.Errorf("%d readings in 2 minutes because of another program's table", now-reads)
		}
	})
}

func apply(t *testing.T, r *run, ops ...kernel.Op) {
	t.Helper()
	if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: ops}); err != nil {
		t.Fatal(err)
	}
}
