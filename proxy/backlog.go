package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// backlog is whether the loop keeps up with its work. Other goroutines may read it.
type backlog struct {
	period atomic.Int64 // the sync period, in ns; 0 before Run

	mu      sync.Mutex
	waiting time.Time // since when the oldest change waits to be programmed; zero if none does
	newest  time.Time // when the newest work arrived; zero before the first
}

// queued notes that there is work to do.
func (b *backlog) queued(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = now
	if b.waiting.IsZero() {
		b.waiting = now
	}
}

// applied notes that no work waits.
func (b *backlog) applied() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = time.Time{}
}

// Healthy reports whether the node serves what the sources say: no change and no full
// check has waited for twice the sync period. What the kernel refuses of a few services
// does not count as waiting, see keepsUp. It may be called from any goroutine.
func (p *Proxy) Healthy() bool {
	p.backlog.mu.Lock()
	since := p.backlog.waiting
	p.backlog.mu.Unlock()
	return since.IsZero() || time.Since(since) < 2*time.Duration(p.backlog.period.Load())
}

// Queued is when the newest work arrived, including full checks; zero before the first.
// It may be called from any goroutine.
func (p *Proxy) Queued() time.Time {
	p.backlog.mu.Lock()
	defer p.backlog.mu.Unlock()
	return p.backlog.newest
}
