package status

import (
	"errors"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources"
)

// maxFaults is how many objects that the kernel refuses are remembered one by
// one. When it refuses everything, the first hundred say why.
const maxFaults = 100

// History is what the last sync does not tell: since when things are as they are.
// Its zero is before the first sync.
type History struct {
	since    time.Time // syncs fail since
	failures int       // in a row
	change   *Change   // the last sync that changed something, and the last that
	drift    *Change   // repaired drift
	faults   []fault
	refused  int // all objects, those beyond maxFaults too

	// Of the last sync that got as far as a plan.
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

// After is the past once another sync is over.
func (p History) After(r proxy.Report) History {
	if !r.Planned.IsZero() {
		p.conflicts, p.taken, p.leftOut = r.Plan.Conflicts, r.Plan.Taken, r.Problems
	}
	var failed *kernel.ApplyError
	errors.As(r.Err, &failed)
	if !r.Planned.IsZero() && (failed == nil || len(failed.Failed) < len(r.Plan.Ops)) && !r.Plan.Empty() {
		p.change = changeOf(r)
		if r.Drift() {
			p.drift = p.change
		}
	}
	if r.Err == nil {
		p.since, p.failures, p.faults, p.refused = time.Time{}, 0, nil, 0
		return p
	}
	if p.failures++; p.failures == 1 {
		p.since = r.End()
	}
	if failed != nil {
		p.faults, p.refused = p.tried(failed.Failed, r.End()), len(failed.Failed)
	}
	return p
}

// tried are the faults after a sync in which these ops failed. One that failed
// before keeps its time.
func (p History) tried(failed []*kernel.OpError, now time.Time) []fault {
	before := make(map[string]fault, len(p.faults))
	for _, f := range p.faults {
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

func changeOf(r proxy.Report) *Change {
	c := &Change{Cause: string(r.Cause), Planned: r.Planned, Acknowledged: r.End(), TotalSeconds: seconds(r.End().Sub(r.Start))}
	c.Add, c.Change, c.Remove = r.Plan.Counts()
	if s, ok := r.Stages(); ok {
		c.Seen, c.Parsed, c.TotalSeconds = r.Seen, r.Changed, seconds(s.Total)
	}
	return c
}

func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// Recorder keeps the History of a running loop. Its zero is ready, its methods may
// be called from any goroutine.
type Recorder struct {
	mu      sync.Mutex
	history History
}

// Synced is to be told of every sync, in order.
func (h *Recorder) Synced(r proxy.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = h.history.After(r)
}

// History is what is known now.
func (h *Recorder) History() History {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.history
}
