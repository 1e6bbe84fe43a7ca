package proxy

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// progress is how far the sync that is running has come. Other goroutines may read it.
type progress struct {
	kernel  Kernel
	log     *slog.Logger
	running atomic.Pointer[Running] // nil between two syncs
	stages  atomic.Uint64           // stages of syncs that are over
	timer   *time.Timer             // logs a sync that takes long
	loaded  atomic.Pointer[loaded]  // nil without a load
}

// loaded is how far a load in several syncs is.
type loaded struct{ vips, of int }

// Running is a sync that is not over.
type Running struct {
	Cause Cause
	Start time.Time
	// Done of Of steps of its plan are over. Of is 0 before there is a plan.
	Done, Of int
	// VIPs of NewVIPs have virtual servers since earlier syncs of the load. NewVIPs is 0 if the table adds few.
	VIPs, NewVIPs int
}

// logProgressEvery is how often the log says how far a long sync is.
const logProgressEvery = 10 * time.Second

func (g *progress) init(k Kernel, log *slog.Logger) {
	g.kernel, g.log = k, log
	g.timer = time.AfterFunc(logProgressEvery, g.logLong)
	g.timer.Stop()
}

// begin notes that a sync is running until end is called. A sync can take long: real
// servers that return soon after they were removed take milliseconds each (see
// kernel/plan/DESIGN.md).
func (g *progress) begin(cause Cause, start time.Time) (end func()) {
	g.running.Store(&Running{Cause: cause, Start: start})
	g.timer.Reset(logProgressEvery)
	return func() {
		g.timer.Stop()
		g.running.Store(nil)
		g.loaded.Store(nil)
	}
}

// load notes how many VIPs of a load have virtual servers; of is 0 without a load.
func (g *progress) load(vips, of int) {
	if of > 0 {
		g.loaded.Store(&loaded{vips, of})
	}
}

// stage notes that a stage of the sync is over.
func (g *progress) stage() { g.stages.Add(1) }

// activity grows while a sync makes progress.
func (g *progress) activity() uint64 { return g.kernel.Progress().Activity + g.stages.Load() }

func (g *progress) now() *Running {
	r := g.running.Load()
	if r == nil {
		return nil
	}
	now, steps := *r, g.kernel.Progress()
	now.Done, now.Of = steps.Done, steps.Of
	if l := g.loaded.Load(); l != nil {
		now.VIPs, now.NewVIPs = l.vips, l.of
	}
	return &now
}

// logLong is what the timer does.
func (g *progress) logLong() {
	if now := g.now(); now != nil {
		attrs := []any{"cause", now.Cause, "since", time.Since(now.Start).Round(time.Second), "done", now.Done, "steps",
			now.Of}
		if now.NewVIPs > 0 {
			attrs = append(attrs, "vips", now.VIPs, "newVIPs", now.NewVIPs)
		}
		g.log.Warn("a sync takes long", attrs...)
		g.timer.Reset(logProgressEvery)
	}
}

// Running returns the sync that is running, nil between two. It may be called from any
// goroutine.
func (p *Proxy) Running() *Running {
	return p.progress.now()
}

// Alive reports whether the loop answers before ctx ends, or has at least made progress
// in a long sync: the kernel answered something, or a stage ended. A loop that hangs or
// has ended does neither. It may be called from any goroutine.
func (p *Proxy) Alive(ctx context.Context) bool {
	before := p.progress.activity()
	select {
	case p.requests.alive <- struct{}{}:
		return true
	case <-ctx.Done():
		return p.progress.activity() != before
	}
}
