package proxy

import (
	"context"
	"time"
)

// Running is a sync that is not over.
type Running struct {
	Cause Cause
	Start time.Time
	// Done steps Of its plan; Of is 0 before there is one.
	Done, Of int
}

// Running is the sync that goes on, nil between two. It may be called from any
// goroutine.
func (p *Proxy) Running() *Running {
	r := p.running.Load()
	if r == nil {
		return nil
	}
	now, progress := *r, p.Kernel.Progress()
	now.Done, now.Of = progress.Done, progress.Of
	return &now
}

// Alive says whether the loop answers before ctx ends, or has at least come
// further in a long sync: the kernel has answered something, or a stage is over.
// A loop that is stuck, or has ended, does neither. It may be called from any
// goroutine.
func (p *Proxy) Alive(ctx context.Context) bool {
	p.init()
	before := p.activity()
	select {
	case p.alive <- struct{}{}:
		return true
	case <-ctx.Done():
		return p.activity() != before
	}
}

// progressEvery is how often the log says how far a long sync is.
const progressEvery = 10 * time.Second

// begin notes that a sync goes on, until the function returned is called. One that
// takes long says how far it is: real servers that come back soon after they were
// removed, for one, take milliseconds each (see kernel/DESIGN.md).
func (p *Proxy) begin(r Report) (end func()) {
	p.running.Store(&Running{Cause: r.Cause, Start: r.Start})
	p.tell.Reset(progressEvery)
	return func() {
		p.tell.Stop()
		p.running.Store(nil)
	}
}

// sayProgress is what tell does.
func (p *Proxy) sayProgress() {
	if now := p.Running(); now != nil {
		p.Log.Warn("a sync takes long", "cause", now.Cause, "since", time.Since(now.Start).Round(time.Second), "done", now.Done, "steps", now.Of)
		p.tell.Reset(progressEvery)
	}
}

func (p *Proxy) activity() uint64 { return p.Kernel.Progress().Activity + p.stages.Load() }

// glance looks at the kernel between two checks. What differs, or cannot be had, is
// left to the full check that follows.
func (p *Proxy) glance(now time.Time) {
	same := true
	if p.known {
		var err error
		same, err = p.Kernel.Glance(&p.have)
		same = same && err == nil
	}
	p.pace.glanced(now, same)
}
