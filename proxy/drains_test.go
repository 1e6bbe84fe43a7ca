package proxy_test

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

func TestDrainEndsWithTheLastConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		second := r.kernel.State().Reals.Slice()[1].Key
		r.kernel.SetConns(second, kernel.Conns{Active: 1})
		r.emit(table(1))
		if got := r.weights(); !slices.Equal(got, []uint32{1, 0}) {
			t.Fatalf("weights %v while a connection lives, want [1 0]", got)
		}
		pass(10 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 0}) {
			t.Fatalf("weights %v after 10 s with the connection alive", got)
		}
		r.kernel.SetConns(second, kernel.Conns{})
		pass(3 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the connection has ended", got)
		}
	})
}

func TestReturningEndpointGetsItsWeightBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		r.kernel.SetConns(r.kernel.State().Reals.Slice()[1].Key, kernel.Conns{Inactive: 1})
		r.emit(table(1))
		r.emit(table(2))
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		if ops := r.last().Plan.Ops; len(ops) != 1 || ops[0].Verb != kernel.Change {
			t.Errorf("ops %v, want one change", ops)
		}
	})
}

// If the drain of a real server is over and the kernel refuses to change its weight, the
// loop tries again with increasing pauses.
func TestPassedDeadlineIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		r := start(t, func(r *run) {
			r.options.Rules = func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				f, s := rules(t, n, occupied)
				s.Policy.DrainTimeout = time.Second
				return f, s
			}
			r.kernel.Fail = func(o kernel.Op) error {
				if stuck.Load() && o.Object.Kind() == kernel.KindReal {
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(2))
		r.kernel.SetConns(r.kernel.State().Reals.Slice()[1].Key, kernel.Conns{Active: 1})
		stuck.Store(true)
		r.emit(table(1))
		pass(time.Minute)
		if n := len(r.all()); n > 50 {
			t.Fatalf("%d syncs in a minute", n)
		}
		stuck.Store(false)
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v, want the drain at its end", got)
		}
	})
}

// This holds even if a full check finds the end of the drain.
func TestEndOfDrainIsNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.SyncPeriod = time.Second })
		defer r.end()
		r.emit(table(2))
		second := r.kernel.State().Reals.Slice()[1].Key
		r.kernel.SetConns(second, kernel.Conns{Active: 1})
		r.emit(table(1))
		r.kernel.SetConns(second, kernel.Conns{})
		pass(3 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the connection has ended", got)
		}
		if slices.ContainsFunc(r.all(), proxy.Report.Drift) {
			t.Error("the end of a drain is reported as drift")
		}
	})
}

// Where rules balance, an endpoint of weight 0 has no rule, and the kernel does not know of it when it leaves. Its drain
// begins then all the same, also after a full reading, and the removal of its tracked connections is not drift.
func TestQuiescedEndpointDrainsWhenItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := kernel.RealKey{
			Virtual: kernel.VirtualAt(netip.MustParseAddrPort("10.96.9.9:80"), kernel.TCP), Addr: netip.MustParseAddrPort("10.2.9.9:80"),
		}
		var stuck atomic.Bool
		r := start(t, func(r *run) {
			r.kernel.Fail = func(kernel.Op) error {
				if stuck.Load() {
					return syscall.EPERM
				}
				return nil
			}
			r.options.SyncPeriod = time.Second
			r.options.Rules = func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
				f, s := rules(t, n, occupied)
				s.Policy.DrainRules, s.Policy.DrainTimeout = true, 30*time.Second
				if s.Reals.Len() > 1 {
					s.Policy.Quiesced = []kernel.RealKey{key}
				}
				return f, s
			}
		})
		defer r.end()
		drains := func() bool {
			return slices.ContainsFunc(r.last().Plan.Drains, func(d kernel.Drain) bool { return d.Real == key })
		}
		r.emit(table(2))
		pass(3 * time.Second)
		if drains() {
			t.Fatal("it drains while it has weight 0")
		}
		stuck.Store(true)
		r.emit(table(3))
		stuck.Store(false)
		r.emit(table(1)) // after a failure all of the kernel is read
		if !drains() || !r.last().Full {
			t.Fatalf("it does not drain, or the kernel was not read (%v)", r.last().Full)
		}
		pass(40 * time.Second)
		if drains() {
			t.Error("the drain goes on after its timeout")
		}
		if !slices.ContainsFunc(r.all(), func(p proxy.Report) bool {
			return slices.ContainsFunc(p.Plan.Ops, func(o kernel.Op) bool { return o.Object == kernel.Object(kernel.Flow{Key: key}) })
		}) {
			t.Error("its tracked connections are left")
		}
		if slices.ContainsFunc(r.all(), proxy.Report.Drift) {
			t.Error("the end of the drain is reported as drift")
		}
	})
}
