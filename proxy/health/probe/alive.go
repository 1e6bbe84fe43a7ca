package probe

import (
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// overdue is how many intervals after its due time a probe counts as overdue.
const overdue = 3

// Alive reports whether the loop runs: every probe that was due three intervals ago has started, or others start
// at the limits, and no probe runs for three intervals longer than twice its timeout. A program may: one that waits for a
// broken disk cannot be killed, and a restart of the process would not help. After the process was stopped Alive is false
// until the first probe has started.
func (r *Runner) Alive(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.Sub(r.epoch)
	for _, t := range r.running {
		if t.Probe.Type != sources.CheckExec && at-t.started > 2*timeoutOf(t.Probe)+overdue*t.interval {
			return false
		}
	}
	t := r.queue.overdue(at)
	return t == nil || at-r.lastStart <= overdue*t.interval
}

// Behind returns how late the probes start, if that is more than three intervals, else 0. Results then say little about
// the present: the states of endpoints must stay as they are. Exec probes that wait for a place do not count: they say
// nothing about the others, and Stats has them.
func (r *Runner) Behind(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.Sub(r.epoch)
	if t := r.queue.overdue(at); t != nil {
		return at - t.due
	}
	return 0
}

// overdue returns a target that has been due for more than three intervals, unless it was parked, which made it late. It
// looks only at slots that have begun.
func (q *queue) overdue(at time.Duration) *Target {
	for _, s := range q.order {
		if s.begin > at {
			continue
		}
		for _, t := range s.due {
			if at-t.due > overdue*t.interval && !t.waited {
				return t.Target
			}
		}
	}
	return nil
}

// Due returns when the target's next probe is due; false while one runs, and if the target was removed.
func (r *Runner) Due(t *Target) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.state != waiting && t.state != parked {
		return time.Time{}, false
	}
	return r.epoch.Add(t.due), true
}
