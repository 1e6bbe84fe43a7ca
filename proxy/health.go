package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// health is whether the loop keeps up with its work. Other goroutines may read it.
type health struct {
	period atomic.Int64 // the sync period, in ns; 0 before Run

	mu      sync.Mutex
	waiting time.Time // since when the oldest change waits to be programmed; zero if none does
	newest  time.Time // when the newest work arrived; zero before the first
}

// queued notes that there is work to do.
func (h *health) queued(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = now
	if h.waiting.IsZero() {
		h.waiting = now
	}
}

// applied notes that no work waits.
func (h *health) applied() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = time.Time{}
}

// Healthy reports whether the node serves what the sources say: no change and no full
// check has waited for twice the sync period. What the kernel refuses of a few services
// does not count as waiting, see keepsUp. It may be called from any goroutine.
func (p *Proxy) Healthy() bool {
	p.health.mu.Lock()
	since := p.health.waiting
	p.health.mu.Unlock()
	return since.IsZero() || time.Since(since) < 2*time.Duration(p.health.period.Load())
}

// Queued is when the newest work arrived, including full checks; zero before the first.
// It may be called from any goroutine.
func (p *Proxy) Queued() time.Time {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	return p.health.newest
}
