package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// health is whether the loop keeps up: since when something waits to be
// programmed, as seen from other goroutines.
type health struct {
	period  atomic.Int64 // the sync period, in ns; 0 before Run
	mu      sync.Mutex
	waiting time.Time // since when the oldest change waits; zero if none does
	newest  time.Time // when something to do came last; zero before the first
}

// queued notes that there is something to do.
func (h *health) queued(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = now
	if h.waiting.IsZero() {
		h.waiting = now
	}
}

// settled notes that nothing waits, or, after a failure, that something still
// does.
func (h *health) settled(err error) {
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = time.Time{}
}

// since is when the oldest change that still waits came; zero if none does.
func (h *health) since() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}

// Healthy says whether the node serves what it was told: nothing that was
// queued, full checks included, has waited for twice the sync period. It may be
// called from any goroutine.
func (p *Proxy) Healthy() bool {
	since := p.health.since()
	return since.IsZero() || time.Since(since) < 2*time.Duration(p.health.period.Load())
}

// Queued is when something to do came last, a full check included; zero before
// the first. It may be called from any goroutine.
func (p *Proxy) Queued() time.Time {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	return p.health.newest
}
