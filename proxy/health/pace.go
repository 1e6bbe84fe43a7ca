package health

import (
	"cmp"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Pace is how often a target is probed, and how many results change its state.
type Pace struct {
	Interval, FastInterval, DownInterval time.Duration
	Jitter                               float64
	Fall, Rise                           int
}

// PaceOf returns the pace that a health check asks for.
func PaceOf(c *sources.HealthCheck) Pace {
	return Pace{c.Interval, c.FastInterval, c.DownInterval, c.Jitter, c.Fall, c.Rise}
}

// Next returns how long after the last probe of a target the next one is due. A target whose state is undecided is
// probed at the fast interval.
func (p Pace) Next(s *State) time.Duration {
	switch s.Phase {
	case Up:
		return p.Interval
	case Down:
		return cmp.Or(p.DownInterval, p.Interval)
	}
	return cmp.Or(p.FastInterval, p.Interval)
}

// compare orders paces by interval, then by the other numbers: of services that share a target, the first pace
// counts, whatever the order of the services.
func (p Pace) compare(q Pace) int {
	return cmp.Or(
		cmp.Compare(p.Interval, q.Interval), cmp.Compare(p.Fall, q.Fall), cmp.Compare(p.Rise, q.Rise),
		cmp.Compare(p.FastInterval, q.FastInterval), cmp.Compare(p.DownInterval, q.DownInterval),
		cmp.Compare(p.Jitter, q.Jitter))
}
