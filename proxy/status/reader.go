package status

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
)

// counterAge is how old a reading of the counters may be to be used once more:
// however many ask, the kernel is read twice a second at most, and once more after
// each sync.
const counterAge = 500 * time.Millisecond

// Reader asks a running svcproxy how it stands. Fill in its fields; its method
// may be called from any goroutine.
type Reader struct {
	Proxy    *proxy.Proxy
	Recorder *Recorder     // told of every sync
	Daemon   func() Daemon // as it is now
	Counters Counter       // nil: there are none
	// Warnings, if set, are what may keep traffic away although all is programmed.
	Warnings func() []string

	mu     sync.Mutex
	counts kernel.Counters
	failed error
	read   time.Time
}

// Status is how svcproxy stands now. Counters that cannot be read are a warning.
func (r *Reader) Status(ctx context.Context) Status {
	in := Input{
		Daemon: r.Daemon(), Healthy: r.Proxy.Healthy(), Snapshot: r.Proxy.Snapshot(), Running: r.Proxy.Running(),
		Sources: r.Proxy.Sources(), History: r.Recorder.History(),
	}
	if r.Warnings != nil {
		in.Warnings = r.Warnings()
	}
	if r.Counters != nil {
		var err error
		if in.Counters, err = r.counters(ctx, in.Snapshot); err != nil {
			in.Warnings = append(in.Warnings[:len(in.Warnings):len(in.Warnings)], fmt.Sprintf("connections are not up to date: %v", err))
		}
		in.Counted = err == nil && r.comparable(in.Snapshot, in.Running)
	}
	in.Now = time.Now()
	return New(in)
}

// comparable says whether what was just counted is of the same state as a snapshot
// taken before: no sync has changed the kernel since, or one has been at it for long.
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

// counters reads them, one asker at a time. They are newer than the snapshot.
func (r *Reader) counters(ctx context.Context, s *proxy.Snapshot) (kernel.Counters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.read) >= counterAge || s != nil && r.read.Before(s.Report.End()) {
		counts, err := r.Counters.Read(ctx)
		if err == nil {
			r.counts = counts
		} // else the last ones stay: those that fall to 0 look like traffic that began anew
		r.failed = err
		if ctx.Err() == nil { // else it was this asker who gave up
			r.read = now
		}
	}
	return r.counts, r.failed
}
