package proxy

import (
	"time"

	"github.com/svcproxy/svcproxy/kernel"
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

	// What the last sync that got as far as a plan worked with: the merged
	// table, the node, what the rules made of them, and the real servers that
	// drain since when.
	Table  sources.Table
	Node   kernel.Node
	Want   kernel.State
	Drains []kernel.Drain
}

// Snapshot is what the last sync left; nil before the first. It may be called
// from any goroutine.
func (p *Proxy) Snapshot() *Snapshot { return p.last.Load() }

// publish makes a sync's outcome known.
func (p *Proxy) publish(r Report) {
	s := p.next
	s.Report = r
	if r.Err == nil {
		s.Succeeded = r.End()
	}
	p.next = s
	p.last.Store(&s)
	if p.OnSync != nil {
		p.OnSync(r)
	}
	if p.Served != nil && !r.Planned.IsZero() {
		p.Served(&s)
	}
}
