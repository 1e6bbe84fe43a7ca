package probe

import (
	"fmt"
	"time"
)

const (
	blindAfter = 3 * time.Second // of only void results
	blindLeast = 3               // void results
	overdue    = 3               // intervals
)

// sight is what says whether a runner works, and whether its results mean something.
type sight struct {
	lastStart time.Duration // of a probe, since the epoch
	voids     int           // in a row, over all targets
	voidSince time.Duration // the first of them
	why       string        // the last of them
}

func (s *sight) finish(now time.Duration, r Result) {
	switch {
	case !r.Void():
		s.voids = 0
		return
	case s.voids == 0:
		s.voidSince = now
	}
	s.voids++
	s.why = r.Detail
}

// Alive reports whether the loop runs: every probe that was due three intervals ago has started, or others start
// at the limits, and no probe runs for three intervals longer than twice its timeout. After the process was stopped
// it is false until the first probe has started.
func (r *Runner) Alive(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.Sub(r.epoch)
	for _, t := range r.running {
		if at-t.started > 2*timeoutOf(t.Probe)+overdue*t.interval {
			return false
		}
	}
	t := r.overdue(0, at)
	return t == nil || at-r.sight.lastStart <= overdue*t.interval
}

// Blind returns why the results mean nothing, or "": for three seconds all were void, or probes start more than
// three intervals late. The states of endpoints must then stay as they are.
func (r *Runner) Blind(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.Sub(r.epoch)
	if s := r.sight; s.voids >= blindLeast && at-s.voidSince >= blindAfter {
		return fmt.Sprintf("no probe could be made for %v: %s", (at - s.voidSince).Truncate(time.Second), s.why)
	}
	if t := r.overdue(0, at); t != nil {
		return fmt.Sprintf("probes start %v late", (at - t.due).Truncate(time.Millisecond))
	}
	return ""
}

// overdue returns a target below place in the heap that has been due for more than three intervals. It looks only
// at targets that are due.
func (r *Runner) overdue(place int, at time.Duration) *Target {
	if place >= len(r.queue) || r.queue[place].due > at {
		return nil
	}
	if t := r.queue[place]; at-t.due > overdue*t.interval {
		return t
	}
	if t := r.overdue(2*place+1, at); t != nil {
		return t
	}
	return r.overdue(2*place+2, at)
}
