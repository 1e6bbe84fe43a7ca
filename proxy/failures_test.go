package proxy_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

func TestFailuresAreRetriedSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusals atomic.Int32
		refusals.Store(4)
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal && refusals.Load() > 0 {
					refusals.Add(-1)
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(1))
		began := time.Now()
		if !errors.Is(r.last().Err, syscall.EPERM) {
			t.Fatalf("error %v", r.last().Err)
		}
		for refusals.Load() > 0 || r.last().Err != nil {
			pass(50 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("served after %v; four refusals should cost 0.1+0.2+0.4+0.8 s", took)
		}
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v", got)
		}
	})
}

// Steps that wait for another program's lock fail late and are tried again at once. A
// loop that does only that is alive.
func TestLongSyncsAreAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 19 * time.Second
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() != kernel.KindReal {
					return nil
				}
				time.Sleep(long)
				return syscall.EAGAIN
			}
		})
		defer r.end()
		r.emit(table(1))
		for range 10 {
			asking, cancel := context.WithTimeout(t.Context(), long+time.Second)
			alive := r.proxy.Alive(asking)
			cancel()
			if !alive {
				t.Fatalf("no answer after %d syncs", len(r.all()))
			}
			pass(time.Second)
		}
	})
}

// A stop in the middle of a sync is not reported as a failure.
func TestStopDuringSyncIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := start(t, func(r *run) {
			r.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.kernel.Fail = func(kernel.Op) error { r.stop(); return context.Canceled }
		})
		r.source <- emission{table: table(1)}
		if err := <-r.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if log.Len() > 0 || len(r.all()) > 0 {
			t.Errorf("%d reports, and a log of\n%s", len(r.all()), &log)
		}
	})
}

func TestHealthyUntilASyncIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		r := start(t, func(r *run) {
			r.kernel.Fail = func(kernel.Op) error {
				if broken.Load() {
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(1))
		pass(10 * time.Minute)
		if !r.proxy.Healthy() {
			t.Fatal("unhealthy while idle")
		}
		broken.Store(true)
		r.emit(table(2))
		pass(59 * time.Second)
		if !r.proxy.Healthy() {
			t.Error("unhealthy before twice syncPeriod")
		}
		pass(2 * time.Second)
		if r.proxy.Healthy() {
			t.Error("healthy with a change that waits for more than twice syncPeriod")
		}
		broken.Store(false)
		pass(time.Minute)
		if !r.proxy.Healthy() {
			t.Error("unhealthy after the change was programmed")
		}
	})
}

// What the kernel refuses of one service of three is no reason to take the node out, nor to end at the first sync. Of two of
// three it is.
func TestFewRefusedServices(t *testing.T) {
	three := sources.Table{}
	for i, name := range []string{"a", "b", "c"} {
		s := *table(1).Services.At(0)
		s.Name, s.ClusterIPs = name, []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i + 1)})}
		three.Services = three.Services.Append(s)
	}
	missing := &kernel.MissingError{What: "no such scheduler"}
	for _, c := range []struct {
		name    string
		refused byte
		why     error
		ends    bool
		healthy bool
	}{
		{name: "none", healthy: true},
		{name: "one", refused: 1, why: missing, healthy: true},
		{name: "two", refused: 2, why: syscall.EINVAL},
		{name: "two of which the kernel lacks something", refused: 2, why: missing, ends: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(r *run) {
					r.kernel.Fail = func(o kernel.Op) error {
						if v, ok := o.Object.(kernel.Virtual); ok && v.Key.Addr.As4()[3] <= c.refused {
							return c.why
						}
						return nil
					}
				})
				if c.ends {
					r.source <- emission{table: three}
					if err := <-r.done; !errors.Is(err, missing) {
						t.Errorf("Run: %v, want what is missing", err)
					}
					return
				}
				defer r.end()
				r.emit(three)
				pass(5 * time.Minute)
				if err := r.last().Err; r.proxy.Healthy() != c.healthy || (err != nil) != (c.refused > 0) {
					t.Errorf("healthy %t, last sync: %v", r.proxy.Healthy(), err)
				}
			})
		})
	}
}
