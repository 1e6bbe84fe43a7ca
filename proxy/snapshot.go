package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Snapshot is what the loop knows after a sync. It is a value that others may keep, and
// that nothing changes.
type Snapshot struct {
	// Report is the report of the last sync, whether it succeeded or not.
	Report Report
	// Succeeded is when the last sync ended that carried out its whole plan without an error; zero before the first.
	Succeeded time.Time

	// Table is the merged table of the last sync that could read the kernel, with the weights that follow from health
	// checks. Node is the node that it read, Frontends what this node serves of the table, and Want the kernel state for
	// that. Frontends is nil before the first such sync.
	Table     sources.Table
	Node      kernel.Node
	Frontends *frontend.Frontends
	Want      kernel.State
	// Delta is what differs between the Table of the snapshot before and this one. It
	// is empty if this sync made no table.
	Delta sources.Delta
	// Sourced: sources made changes of Delta. Without it only the health of endpoints changed, which has events of its
	// own.
	Sourced bool
	// Changes are the first maxChangeLines changes of Delta in words. It has none at the first sync, and none without
	// Sourced.
	Changes []sources.Described
	// Asker is who asked for the reading of the files during which the sync ran: "root (uid 0)"; "" without a
	// request. Changes of an API server are not due to it.
	Asker string
	// Doubts are services that are served but probably not as they were meant, one line
	// each: see sources.Doubts.
	Doubts []string
	// Unfinished are the parts of what is wanted that the loop goes on with by itself and soon, a line each: ops that are
	// left to the next sync, VIPs that other hosts are asked about, and VIPs that were withdrawn and are still served.
	Unfinished []string
	// Drains are the real servers that drain, each with the time since when, as of the
	// last plan.
	Drains []kernel.Drain
	// Announced are the VIPs that routing daemons may be told of, as of the last sync.
	Announced []announce.VIP
	// Warnings are what keeps clients from being served, or slows them down, though the
	// kernel is as wanted. Each is one line: another program's firewall, a small hash.
	Warnings []string
	// Barred is the number of Warnings about a firewall. They are the first ones.
	Barred int
}

// Kept returns the snapshot without the ops of its plan and without its Delta and Changes. After a
// first sync these are a quarter of all memory. OnSync gets them.
func (s Snapshot) Kept() *Snapshot {
	s.Report.Plan.Ops, s.Report.Repairs, s.Delta, s.Changes = nil, nil, sources.Delta{}, nil
	return &s
}

// ByRules reports whether rules balance connections. The kernel then has no virtual
// servers, and counts no connections.
func (s *Snapshot) ByRules() bool {
	return s.Frontends != nil && len(s.Frontends.Fronts) > 0 && len(s.Want.Virtuals) == 0
}

// Reals returns the number of real servers; where rules balance instead, that of the
// backends of all addresses.
func (s *Snapshot) Reals() int {
	if !s.ByRules() {
		return s.Want.Reals.Len()
	}
	_, backends := s.Frontends.Count()
	return backends
}

// WithoutBackends returns the services that have, for one of their ports, no real
// server that gets new connections, sorted.
func (s *Snapshot) WithoutBackends() []string {
	if s == nil || s.Frontends == nil {
		return nil
	}
	return s.Frontends.WithoutBackends()
}

// snapshots publishes snapshots to other goroutines.
type snapshots struct {
	last atomic.Pointer[Snapshot]
	mu   sync.Mutex
	news chan struct{} // closed by the next wake; nil if nothing waits for it
}

// wake wakes all that wait for a snapshot.
func (s *snapshots) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// await waits for the first snapshot that will do.
func (s *snapshots) await(ctx context.Context, will func(*Snapshot) bool) (*Snapshot, error) {
	for {
		s.mu.Lock()
		if last := s.last.Load(); last != nil && will(last) {
			s.mu.Unlock()
			return last, nil
		}
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news := s.news
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a sync: %w", ctx.Err())
		}
	}
}

// publish makes the result of a sync known. OnSync gets it before waiting goroutines,
// with its ops and its Delta.
func (p *Proxy) publish(r Report) {
	s := p.next
	s.Report = r
	if r.Err == nil && r.Left == 0 {
		s.Succeeded = r.End()
	}
	kept := s.Kept()
	p.next = *kept
	p.snapshots.last.Store(kept)
	if p.OnSync != nil {
		p.OnSync(&s)
	}
	p.snapshots.wake()
}

// Snapshot returns what the last sync left, without its ops and Delta; nil before the
// first. It may be called from any goroutine.
func (p *Proxy) Snapshot() *Snapshot { return p.snapshots.last.Load() }

// Await waits for a sync that began at this time or later and returns its Snapshot. The
// error is that of ctx. It may be called from any goroutine.
func (p *Proxy) Await(ctx context.Context, began time.Time) (*Snapshot, error) {
	return p.snapshots.await(ctx, func(s *Snapshot) bool { return !s.Report.Start.Before(began) })
}
