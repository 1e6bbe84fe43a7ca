package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/health"
)

// counterAge bounds the age of counters that are used again. So however many
// clients ask, the kernel is read at most twice a second, plus once after a sync.
const counterAge = 500 * time.Millisecond

// Reader makes the status of a running svcproxy. Fill in its fields. Its methods may
// be called from any goroutine.
type Reader struct {
	Proxy    *proxy.Proxy
	Recorder *Recorder     // Synced is called after every sync
	Daemon   func() Daemon // returns the daemon as it is now
	Counters Counter       // nil: no counters
	// Health, if set, returns what is known of health checks and orders.
	Health func() health.View
	// Due, if set, returns when a target is probed next; false if it is not known.
	Due func(health.Key) (time.Time, bool)
	// Conditions are those of this svcproxy; nil is none.
	Conditions *condition.Board
	// Warnings, if set, returns what may keep traffic away although everything is
	// programmed.
	Warnings func() []string

	mu     sync.Mutex
	counts kernel.Counters
	full   reals
	failed error
	read   time.Time
}

// Status returns the status now. If the counters cannot be read, it has a warning
// and the last counters.
func (r *Reader) Status(ctx context.Context) Status {
	in := Input{
		Daemon: r.Daemon(), Healthy: r.Proxy.Healthy(), Snapshot: r.Proxy.Snapshot(), Running: r.Proxy.Running(),
		Sources: r.Proxy.Sources(), Conditions: r.Conditions.List(), History: r.Recorder.History(),
	}
	if r.Warnings != nil {
		in.Warnings = r.Warnings()
	}
	if r.Counters != nil {
		var err error
		if in.Counters, in.Full, err = r.counters(ctx, in.Snapshot); err != nil {
			in.Warnings = append(in.Warnings[:len(in.Warnings):len(in.Warnings)],
				fmt.Sprintf("connections are not up to date: %v", err))
		}
		in.Counted = err == nil && r.comparable(in.Snapshot, in.Running)
	}
	if r.Health != nil {
		view := r.Health()
		in.Health = &view
	}
	in.Now = time.Now()
	return New(in)
}

// comparable reports whether counters that were just read may be compared with an
// older snapshot: no sync has begun or ended since, or the same sync has been
// running for long.
func (r *Reader) comparable(s *proxy.Snapshot, running *proxy.Running) bool {
	now := r.Proxy.Running()
	switch {
	case s == nil || r.Proxy.Snapshot() != s || (running == nil) != (now == nil):
		return false
	case now == nil:
		return true
	}
	return now.Start.Equal(running.Start) && running.Long()
}

// counters returns counters that are newer than the snapshot, and which real servers are full. One caller at a time
// reads the kernel.
func (r *Reader) counters(ctx context.Context, s *proxy.Snapshot) (kernel.Counters, reals, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.read) >= counterAge || s != nil && r.read.Before(s.Report.End()) {
		counts, err := r.Counters.Read(ctx)
		if err == nil {
			r.counts = counts
			if s != nil {
				r.full = fullReals(r.full, s.Want.Reals, counts)
			}
		} // else keep the last ones: counters that fall to 0 look like a restart
		r.failed = err
		if ctx.Err() == nil { // else this caller gave up, and the next one tries again
			r.read = now
		}
	}
	return r.counts, r.full, r.failed
}
