package probe

import (
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// overdue is how many intervals after its due time a probe counts as overdue.
const overdue = 3

// Alive reports whether the loop runs: it has taken every probe that was due three intervals ago, if only to
// let it wait for a place, and no probe runs for three intervals longer than twice its timeout. A program
// may: one that waits for a broken disk cannot be killed, and a restart of the process would not help. After
// the process was stopped Alive is false until the loop runs.
func (r *Runner) Alive(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.Sub(r.epoch)
	for _, t := range r.running {
		if t.Probe.Type != sources.CheckExec && at-t.started > 2*timeoutOf(t.Probe)+overdue*t.every {
			return false
		}
	}
	return !r.queue.overdue(at)
}

// overdue reports whether a target has been due for more than three intervals. It looks only at slots that have begun.
func (q *queue) overdue(at time.Duration) bool {
	for _, s := range q.order {
		if s.begin > at {
			continue
		}
		for _, t := range s.due {
			if at-t.due > overdue*t.every {
				return true
			}
		}
	}
	return false
}

// Starved is a service with targets that have waited for a place for more than three intervals. Their last results are
// true, but old.
type Starved struct {
	Service  string
	Programs bool // of exec checks, whose places are others
	Paced    bool // Limits.PerSecond keeps them waiting
	Targets  int
	Since    time.Time // the oldest was due
}

// Starved lists such services, sorted.
func (r *Runner) Starved() []Starved {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Starved
	at := r.now()
	for k, g := range r.groups {
		x := Starved{Service: k.service, Programs: k.lane == &r.programs, Paced: r.pacing}
		for i := range g.shares {
			for _, t := range g.shares[i].due {
				if at-t.Target.due <= overdue*t.every {
					continue
				}
				x.Targets++
				if due := r.epoch.Add(t.Target.due); x.Since.IsZero() || due.Before(x.Since) {
					x.Since = due
				}
			}
		}
		if x.Targets > 0 {
			list = append(list, x)
		}
	}
	sources.SortFunc(list, func(a, b Starved) int { return strings.Compare(a.Service, b.Service) })
	return list
}

// Due returns when the target's next probe is due; false while one runs, and if the target was removed.
func (r *Runner) Due(t *Target) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.state != waiting && t.state != ready {
		return time.Time{}, false
	}
	return r.epoch.Add(t.due), true
}
