package probe

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

const (
	// minInterval bounds how often a target is probed.
	minInterval = turnGap
	// turnGap is between two turns of the loop. Probes that are due in between start together. At 5,000 a second
	// this saves a wake-up of the process for each. 20 ms took a tenth less processor time than 10 ms, and 40 ms
	// 3 % less than 20 ms. Probes start up to this much late.
	turnGap = 40 * time.Millisecond
)

// Limits bound what a Runner does at once. Zero values are replaced by DefaultLimits.
type Limits struct {
	InFlight  int // probes at once
	PerSecond int // probes started
	Exec      int // exec probes at once
}

// DefaultLimits returns the limits of a node that configures none.
func DefaultLimits() Limits { return Limits{InFlight: 2000, PerSecond: 20000, Exec: 8} }

// Runner probes targets, each in its interval. Targets can be added and removed at any time. A target never has two
// probes at once.
type Runner struct {
	do     probeFunc
	report func(*Target, Result) Next
	limits Limits
	conns  connects // of Run's goroutine
	epoch  time.Time
	wake   chan struct{} // there is something to start before the time that the loop sleeps until

	mu       sync.Mutex
	queue    queue // targets that are not due yet; the others wait in the shares of their services
	groups   map[groupKey]*group
	programs lane // of exec probes
	others   lane
	running  list
	charged  time.Duration // see charge
	paced    time.Duration
	pacing   bool          // the pace ended the last turn, and others wait
	sleeps   time.Duration // until when the loop sleeps
	stats    Stats
	stall    stall
}

// probeFunc makes a probe: Prober.Do.
type probeFunc func(context.Context, *sources.Probe, netip.AddrPort, Meta) Result

// Next says when a target is to be probed next.
type Next struct {
	After time.Duration // the last probe was due
	Down  bool          // the target is down: it waits for a place behind those of its service that are up
}

// begun is a probe that has started.
type begun struct {
	target  *Target
	late    time.Duration // from its due time to its start
	stalled time.Duration // the total of stalls at its start
}

// NewRunner returns a runner that probes by p. It calls report with each result; calls for different targets overlap.
// report returns when the target is probed next. It must not block for long, because all tcp probes that only
// connect share a goroutine.
func NewRunner(p *Prober, report func(*Target, Result) Next, limits Limits) *Runner {
	r := newRunner(p.Do, report, limits)
	r.conns.prober = p
	return r
}

// newRunner returns a runner that calls do for each probe, on a goroutine of its own.
func newRunner(do probeFunc, report func(*Target, Result) Next, limits Limits) *Runner {
	defaults := DefaultLimits()
	limits.InFlight = cmp.Or(max(limits.InFlight, 0), defaults.InFlight)
	limits.PerSecond = cmp.Or(max(limits.PerSecond, 0), defaults.PerSecond)
	limits.Exec = cmp.Or(max(limits.Exec, 0), defaults.Exec)
	return &Runner{
		do: do, report: report, limits: limits, epoch: time.Now(), wake: make(chan struct{}, 1),
		groups: map[groupKey]*group{}, programs: lane{places: limits.Exec}, others: lane{places: limits.InFlight},
	}
}

// Add has t probed each interval, unless report says otherwise. The first probe comes within one interval:
// when is a hash of the target, so that the probes of many targets are spread. A target that was removed
// cannot be added again.
func (r *Runner) Add(t *Target, interval time.Duration) {
	t.hash, t.every = hashOf(t), max(interval, minInterval)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.join(t)
	r.push(t, r.now()+t.first())
}

// Remove ends the probing of t for good. A probe that is running goes on, and its result is dropped, unless report
// has been called with it already.
func (r *Runner) Remove(t *Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch t.state {
	case waiting:
		r.queue.remove(t)
	case ready:
		t.share().remove(t)
	case running:
		t.gone = true // its probe still counts against the limits
		return
	case removed:
		return
	}
	t.state = removed
	r.leave(t)
}

// Change sets a new interval, which counts from now. It is for a changed configuration; states change the interval
// by what report returns.
func (r *Runner) Change(t *Target, interval time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.every = max(interval, minInterval)
	if t.state != waiting {
		return // report will be asked
	}
	r.queue.remove(t)
	r.push(t, r.now()+t.first())
}

// Run probes until ctx ends, which also ends the probes that are running. It returns without waiting for them.
func (r *Runner) Run(ctx context.Context) {
	defer r.conns.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		next := r.turn(ctx, r.now())
		// A wake-up during the gap stays in the channel and is heeded after it.
		r.gap(ctx)
		wait := next - r.now()
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.wake:
		}
	}
}

// now returns the time since the epoch. A suspended machine does not count, a stopped process does.
func (r *Runner) now() time.Duration { return time.Since(r.epoch) }

// turn starts the probes that are due, as far as the limits allow, and returns when the next turn is.
func (r *Runner) turn(ctx context.Context, now time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stall.woke(now)
	defer func() { r.stall.wakes = max(r.sleeps, now+turnGap) }()
	r.sleeps = now + time.Hour
	for t := r.queue.first(); t != nil; t = r.queue.first() {
		if t.due > now {
			r.sleeps = t.due
			break
		}
		r.queue.remove(t)
		t.state = ready
		t.classify(now)
		t.share().add(t)
	}
	for r.paced <= now {
		others, programs := r.others.next(), r.programs.next()
		if others != nil {
			r.start(ctx, others, now)
		}
		if programs != nil {
			r.start(ctx, programs, now)
		}
		if others == nil && programs == nil {
			break
		}
	}
	r.cut(&r.others, now)
	r.cut(&r.programs, now)
	if r.pacing = r.paced > now && r.others.waits()+r.programs.waits() > 0; r.pacing {
		r.sleeps = min(r.sleeps, r.paced)
	}
	if len(r.running) > 0 {
		r.sleeps = min(r.sleeps, now+stallWatch)
	}
	if r.conns.busy() {
		r.sleeps = min(r.sleeps, now+turnGap)
	}
	return r.sleeps
}

// start starts a probe. The pace allows as many at once as are due in two turns.
func (r *Runner) start(ctx context.Context, t *Target, now time.Duration) {
	r.paced = max(r.paced, now-2*turnGap) + time.Second/time.Duration(r.limits.PerSecond)
	r.take(t)
	t.started, t.state, t.cut, t.cancel = now, running, false, nil
	r.running.add(t)
	b := begun{t, now - t.due, r.stall.total}
	r.stats.start(b.late)
	if r.conns.makes(t.Probe) {
		r.conns.begun = append(r.conns.begun, b)
		return
	}
	probing, cancel := context.WithCancel(ctx)
	t.cancel = cancel
	go func() {
		defer cancel()
		r.finish(ctx, b, r.do(probing, t.Probe, t.Address, t.Meta))
	}()
}

// finish reports a result and schedules the target's next probe, unless ctx has ended.
func (r *Runner) finish(ctx context.Context, b begun, result Result) {
	if ctx.Err() != nil {
		return
	}
	t := b.target
	result.Late = b.late
	var next Next
	counts, cut := r.counts(t, &result, b.stalled)
	if counts {
		next = r.report(t, result)
	}
	if result.unended != nil {
		if next = r.await(ctx, t, result.unended, next); ctx.Err() != nil {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.running.remove(t)
	r.ended(t, now)
	switch {
	case t.gone:
		t.state = removed
		r.leave(t)
		return
	case cut: // it is still due
	default:
		t.down = next.Down
		t.schedule(now, next.After)
	}
	r.push(t, t.due)
}

// await returns when a program has ended that could not be killed, and the target's next probe by then. Until
// then it has its place and no other probe. Its timeout is reported again each interval, because one bad
// result alone changes no state.
func (r *Runner) await(ctx context.Context, t *Target, ended <-chan struct{}, next Next) Next {
	for {
		stalled := r.stalled()
		timer := time.NewTimer(max(next.After, timeoutOf(t.Probe)))
		select {
		case <-ended:
			timer.Stop()
			return next
		case <-ctx.Done():
			timer.Stop()
			return next
		case <-timer.C:
		}
		again := result(Timeout, cannotKill)
		again.Duration = r.now() - t.started
		if counts, _ := r.counts(t, &again, stalled); counts {
			next = r.report(t, again)
		}
	}
}

// stalled returns how long this process did not run, since the epoch.
func (r *Runner) stalled() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stall.until(r.now())
}

// counts records a result, and reports whether it counts: its target still exists, and the probe was not cut
// short. A failure during a stall becomes void.
func (r *Runner) counts(t *Target, result *Result, stalled time.Duration) (counts, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.cut && result.Void() {
		return false, true
	}
	if excuses(result.Outcome, r.stall.until(r.now())-stalled, timeoutOf(t.Probe)) {
		result.Outcome, result.Detail = Void, tooLate
	}
	if !t.gone {
		r.stats.finish(*result)
	}
	return !t.gone, false
}

// ended notes that a probe no longer runs. The loop wakes if others wait for its place.
func (r *Runner) ended(t *Target, now time.Duration) {
	r.free(t, now)
	if t.group.lane.waits() > 0 {
		r.signal()
	}
}

// push queues a target. The loop wakes if it would sleep for too long.
func (r *Runner) push(t *Target, due time.Duration) {
	t.due, t.state = due, waiting
	r.queue.push(t)
	if due < r.sleeps {
		r.sleeps = due
		r.signal()
	}
}

func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
