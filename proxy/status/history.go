package status

import (
	"errors"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// maxFaults bounds the faults that are kept. If the kernel refuses everything, the
// first hundred say why.
const maxFaults = 100

// History is what earlier syncs did: since when syncs fail, and what last changed.
// The zero value is before the first sync.
type History struct {
	since    time.Time // when syncs began to fail
	failures int       // failed syncs in a row
	change   *Change   // the last sync that changed something
	drift    *Change   // the last sync that repaired drift
	faults   []fault
	refused  int // number of faults, including those beyond maxFaults

	// Of the last sync that made a plan.
	conflicts []kernel.Conflict
	taken     []kernel.Taken
	leftOut   []sources.Problem
}

// fault is an op that failed at the last sync that tried it.
type fault struct {
	op    kernel.Op
	text  string // of op
	err   string
	since time.Time
	count int
}

// After returns the history after one more sync.
func (h History) After(r proxy.Report) History {
	if !r.Planned.IsZero() {
		h.conflicts, h.taken, h.leftOut = r.Plan.Conflicts, r.Plan.Taken, r.Problems
	}
	var failed *kernel.ApplyError
	errors.As(r.Err, &failed)
	if !r.Planned.IsZero() && (failed == nil || len(failed.Failed) < len(r.Plan.Ops)) && !r.Plan.Empty() {
		h.change = changeOf(r)
		if r.Drift() {
			h.drift = h.change
		}
	}
	if r.Err == nil && r.Left > 0 {
		return h // what failed may be among the ops that are left
	}
	if r.Err == nil {
		h.since, h.failures, h.faults, h.refused = time.Time{}, 0, nil, 0
		return h
	}
	if h.failures++; h.failures == 1 {
		h.since = r.End()
	}
	if failed != nil {
		h.faults, h.refused = h.tried(failed.Failed, r.End()), len(failed.Failed)
	}
	return h
}

// tried returns the faults after a sync in which these ops failed. A fault that was
// there before keeps its time.
func (h History) tried(failed []*kernel.OpError, now time.Time) []fault {
	before := make(map[string]fault, len(h.faults))
	for _, f := range h.faults {
		before[f.text] = f
	}
	faults := make([]fault, 0, min(len(failed), maxFaults))
	for _, e := range failed[:cap(faults)] {
		f, known := before[e.Op.String()]
		if !known {
			f = fault{op: e.Op, text: e.Op.String(), since: now}
		}
		f.err = e.Err.Error()
		f.count++
		faults = append(faults, f)
	}
	return faults
}

// changeOf describes a sync that changed something.
func changeOf(r proxy.Report) *Change {
	c := &Change{Cause: string(r.Causes.First()), Planned: r.Planned, Acknowledged: r.End()}
	c.TotalSeconds = seconds(r.End().Sub(r.Start))
	c.Add, c.Change, c.Remove = r.Plan.Counts()
	if s, ok := r.Stages(); ok {
		c.Seen, c.Parsed, c.TotalSeconds = r.Seen, r.Changed, seconds(s.Total)
	}
	return c
}

func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// Recorder keeps the History of a running loop. The zero value is ready for use. Its
// methods may be called from any goroutine.
type Recorder struct {
	mu      sync.Mutex
	history History
}

// Synced records a sync. Call it after every sync, in order.
func (r *Recorder) Synced(report proxy.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = r.history.After(report)
}

// History returns the history so far.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history
}
