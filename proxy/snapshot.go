package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Snapshot is what the loop knows after a sync: a value that others may keep,
// and that nobody changes.
type Snapshot struct {
	// Report is of the last sync, whatever became of it.
	Report Report
	// Succeeded is when the last sync without an error ended; zero before the
	// first.
	Succeeded time.Time

	// These are of the last sync that had a kernel to serve on: the merged table, the
	// node, what it serves of the table, the kernel state for that. Frontends is nil
	// before the first of these.
	Table     sources.Table
	Node      kernel.Node
	Frontends *frontend.Frontends
	Want      kernel.State
	// Delta is the difference between the Table of the snapshot before and this one.
	// It is empty if this sync did not get as far as a table.
	Delta sources.Delta
	// Doubts are services that are served but probably not as it was meant, one line
	// each: see sources.Doubts.
	Doubts []string
	// Drains are the real servers that drain, each with the time since when, as of the
	// last plan.
	Drains []kernel.Drain
	// Warnings are what keeps clients from what is served though the kernel is as
	// wanted, or slows them down, a line each: somebody's firewall, a small hash.
	Warnings []string
	// Barred is how many of Warnings, the first ones, are of a firewall.
	Barred int
}

// Kept is the snapshot without the ops of its plan and without its Delta: after a first sync they are a
// quarter of all memory, and whoever counts them has done so by OnSync.
func (s Snapshot) Kept() *Snapshot {
	s.Report.Plan.Ops, s.Delta = nil, sources.Delta{}
	return &s
}

// Snapshot is what the last sync left, but for its ops; nil before the first. It
// may be called from any goroutine.
func (p *Proxy) Snapshot() *Snapshot { return p.last.Load() }

// publish makes a sync's outcome known.
func (p *Proxy) publish(r Report) {
	s := p.next
	s.Report = r
	if r.Err == nil {
		s.Succeeded = r.End()
	}
	kept := s.Kept()
	p.next = *kept
	p.last.Store(kept)
	if p.OnSync != nil {
		p.OnSync(&s)
	}
	p.published.Lock()
	defer p.published.Unlock()
	if p.published.news != nil {
		close(p.published.news)
		p.published.news = nil
	}
}

// Await waits for a sync that began at this time or later and gives what it
// left, as Snapshot does; the error is ctx's.
func (p *Proxy) Await(ctx context.Context, began time.Time) (*Snapshot, error) {
	return p.await(ctx, func(s *Snapshot) bool { return !s.Report.Start.Before(began) })
}

// await waits for the first sync that will do.
func (p *Proxy) await(ctx context.Context, will func(*Snapshot) bool) (*Snapshot, error) {
	for {
		p.published.Lock()
		if s := p.last.Load(); s != nil && will(s) {
			p.published.Unlock()
			return s, nil
		}
		if p.published.news == nil {
			p.published.news = make(chan struct{})
		}
		news := p.published.news
		p.published.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a sync: %w", ctx.Err())
		}
	}
}
