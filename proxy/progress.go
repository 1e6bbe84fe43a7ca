package proxy

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// progress is how far the sync that is running has come. Other goroutines may read it.
type progress struct {
	kernel  Kernel
	log     *slog.Logger
	running atomic.Pointer[Running] // nil between two syncs
	stages  atomic.Uint64           // stages of syncs that are over
	timer   *time.Timer             // logs a sync that takes long
	waved   atomic.Pointer[load]    // of the plan that is being carried out; nil if it has no waves
	loaded  int                     // VIPs that the plans before it loaded which stopped after a wave
}

// load is a plan that goes in waves, and the VIPs that were loaded before it.
type load struct {
	waves  []kernel.Wave
	before int
}

// Running is a sync that is not over.
type Running struct {
	Cause Cause
	Start time.Time
	// Done of Of steps of its plan are over. Of is 0 before there is a plan.
	Done, Of int
	// VIPs of NewVIPs have their first virtual server by now, with those of plans that
	// stopped after a wave. NewVIPs is 0 if the plan adds few.
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
		g.waved.Store(nil)
	}
}

// waves notes the waves of the plan that is to be carried out.
func (g *progress) waves(w []kernel.Wave) { g.waved.Store(&load{w, g.loaded}) }

// ended notes that a plan with waves is over, or has stopped after so many ops. The next plan continues the
// count of VIPs.
func (g *progress) ended(done int, stopped bool) {
	l := g.waved.Load()
	if l == nil || !stopped {
		g.loaded = 0
		return
	}
	g.loaded = l.before + loadedBy(l.waves, done)
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
	if l := g.waved.Load(); l != nil && now.Of > 0 { // else the plan has not begun, or is over
		now.VIPs, now.NewVIPs = l.before+loadedBy(l.waves, now.Done), l.before+l.waves[len(l.waves)-1].VIPs
	}
	return &now
}

// loadedBy returns how many VIPs are loaded when so many ops are done.
func loadedBy(waves []kernel.Wave, done int) int {
	vips := 0
	for _, w := range waves {
		if w.End <= done {
			vips = w.VIPs
		}
	}
	return vips
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
