package probe

import "time"

// lateBounds are the upper bounds of the buckets of Stats.Late, without the last, which has none.
var lateBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// LateBounds returns the upper bounds of the buckets of Stats.Late. The last bucket has none.
func LateBounds() []time.Duration { return lateBounds[:] }

// Stats counts what a Runner has done.
type Stats struct {
	Targets, InFlight, Ready int // at present; ready ones are due, and wait for a place
	// Of the ready ones of exec checks Overdue have been due for more than three intervals, the oldest since OverdueSince.
	Overdue      int
	OverdueSince time.Time // zero if there is none

	Started uint64 // probes
	Void    uint64 // results
	// Late counts the probes by how long after their due time they started.
	Late    [len(lateBounds) + 1]uint64
	LateSum time.Duration
	LateMax time.Duration
}

func (s *Stats) start(late time.Duration) {
	i := 0
	for i < len(lateBounds) && late > lateBounds[i] {
		i++
	}
	s.Late[i]++
	s.Started++
	s.LateSum += late
	s.LateMax = max(s.LateMax, late)
}

func (s *Stats) finish(r Result) {
	if r.Void() {
		s.Void++
	}
}

// LateQuantile returns an upper bound of the lateness of the fraction q of all probes; 0 without any.
func (s *Stats) LateQuantile(q float64) time.Duration {
	if s.Started == 0 {
		return 0
	}
	var seen uint64
	for i, n := range s.Late[:len(lateBounds)] {
		if seen += n; float64(seen) >= q*float64(s.Started) {
			return lateBounds[i]
		}
	}
	return s.LateMax
}

// Stats returns the present figures.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.InFlight = len(r.running)
	at := r.now()
	for k, g := range r.groups {
		for i := range g.shares {
			s.Ready += len(g.shares[i].due)
			for _, t := range g.shares[i].due {
				if k.lane != &r.programs || at-t.Target.due <= overdue*t.every {
					continue
				}
				s.Overdue++
				if due := r.epoch.Add(t.Target.due); s.OverdueSince.IsZero() || due.Before(s.OverdueSince) {
					s.OverdueSince = due
				}
			}
		}
	}
	s.Targets = r.queue.size + s.InFlight + s.Ready
	return s
}
