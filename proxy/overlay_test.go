package proxy_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// takesOut is an overlay that gives the first endpoint weight 0 while out. The loop asks it at any time.
type takesOut struct {
	out  atomic.Bool
	wake atomic.Pointer[time.Time] // nil for never
	last sources.Table             // the loop's own
}

func (o *takesOut) Overlay(m sources.Merged, _ *kernel.Observed) (sources.Merged, time.Time) {
	if o.out.Load() {
		m.Services = sources.ServicesOf(m.Services.Slice()...)
		endpoints := slices.Clone(m.Services.At(0).Endpoints)
		endpoints[0].Weight = 0
		m.Services.At(0).Endpoints = endpoints
	}
	m.Delta = sources.Compare(o.last, m.Table)
	o.last = m.Table
	if wake := o.wake.Load(); wake != nil {
		return m, *wake
	}
	return m, time.Time{}
}

// A change of health is programmed from memory, and named in the report and the Delta.
func TestReplanReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o takesOut
		var deltas []sources.Delta
		r := start(t, func(r *run) {
			r.options.Health = &o
			r.options.OnSync = func(s *proxy.Snapshot) {
				r.report(s)
				deltas = append(deltas, s.Delta)
			}
		})
		defer r.end()
		r.emit(table(2))
		before, _ := r.kernel.Counts()
		o.out.Store(true)
		r.proxy.Replan()
		pass(100 * time.Millisecond)
		if got := r.weights(); !slices.Equal(got, []uint32{0, 1}) {
			t.Errorf("weights %v", got)
		}
		if after, _ := r.kernel.Counts(); after != before {
			t.Errorf("%d readings of the kernel", after-before)
		}
		last := r.proxy.Snapshot()
		if last.Report.Causes != proxy.CausesOf(proxy.CauseHealth) || last.Report.Steps != 1 || last.Report.Checked {
			t.Errorf("cause %q, %d steps, checked %t", last.Report.Causes.First(), last.Report.Steps, last.Report.Checked)
		}
		if d := deltas[len(deltas)-1]; len(d.Changes) != 1 || !d.OnlyEndpoints() {
			t.Errorf("delta %+v", d)
		}
		if w := last.Table.Services.At(0).Endpoints[0].Weight; w != 0 {
			t.Errorf("the snapshot's table has weight %d", w)
		}
	})
}

// A result that comes while the kernel is checked is no drift.
func TestHealthDuringACheckIsNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o takesOut
		r := start(t, func(r *run) { r.options.Health = &o })
		defer r.end()
		r.emit(table(2))
		pass(time.Hour)
		for _, check := range []func(){func() {}, func() { r.proxy.Check(proxy.CauseAsked) }} {
			o.out.Store(!o.out.Load())
			syncs := len(r.all())
			check()
			pass(time.Hour)
			changed := 0
			for _, report := range r.all()[syncs:] {
				changed += report.Steps
				if report.Drift() || report.Steps > 0 && !report.Causes.Has(proxy.CauseHealth) {
					t.Errorf("cause %q, drift %v", report.Causes.First(), report.Repairs)
				}
			}
			if changed != 1 {
				t.Errorf("%d steps", changed)
			}
		}
	})
}

// The loop applies the overlay again when it asked for that, once.
func TestOverlayWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o takesOut
		r := start(t, func(r *run) { r.options.Health = &o })
		defer r.end()
		wake := time.Now().Add(5 * time.Second)
		o.wake.Store(&wake)
		r.emit(table(2))
		o.out.Store(true)
		pass(4 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v before the time", got)
		}
		syncs := len(r.all())
		pass(2 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{0, 1}) {
			t.Errorf("weights %v after the time", got)
		}
		if n := len(r.all()) - syncs; n != 1 {
			t.Errorf("%d syncs for one wake", n)
		}
	})
}

// seesMissing is an overlay that changes nothing, and notes what it is told of missing tables.
type seesMissing struct{ missing, held []bool }

func (o *seesMissing) Overlay(m sources.Merged, _ *kernel.Observed) (sources.Merged, time.Time) {
	o.missing, o.held = append(o.missing, len(m.Missing) > 0), append(o.held, m.Keeps)
	return m, time.Time{}
}

// Tables may be missing also on a node that has just booted: nothing is held then, since nothing is there, but an order for an
// endpoint of the missing table must stay.
func TestOverlayKnowsThatTablesAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o seesMissing
		late := make(script)
		r := start(t, func(r *run) {
			r.options.Health = &o
			r.options.Feeds = append(r.options.Feeds, proxy.Feed{Name: "apiserver", Source: late})
		})
		defer r.end()
		r.emit(table(2))
		pass(time.Minute) // it does not wait longer for the other table
		r.emit(table(1))
		if got := r.weights(); len(got) != 1 || slices.Contains(o.missing, false) || slices.Contains(o.held, true) {
			t.Errorf("weights %v, tables are missing: %v, held: %v", got, o.missing, o.held)
		}
		late <- emission{table: sources.Table{}}
		synctest.Wait()
		pass(time.Millisecond)
		if o.missing[len(o.missing)-1] {
			t.Error("tables are missing after both were delivered")
		}
	})
}
