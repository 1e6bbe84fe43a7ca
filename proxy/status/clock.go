package status

import "time"

// leastStep is how far the machine's clock must have been set for times to follow:
// reading a clock takes time, too.
const leastStep = time.Second

// at is a time of this process in UTC, by the clock as it is now: if that was set
// meanwhile, the time is shifted by as much. So a time is as long before Time as it
// has been, whoever subtracts the two.
func (in Input) at(t time.Time) time.Time {
	if t.IsZero() {
		return t.UTC()
	}
	return t.Add(step(in.Now.Sub(t), in.Now.Round(0).Sub(t.Round(0)))).UTC() // Round(0) leaves the clock on the wall
}

// step is by how much the clock was set in a time that has elapsed, and that the
// clock shows to be another.
func step(elapsed, shown time.Duration) time.Duration {
	if d := shown - elapsed; d.Abs() >= leastStep {
		return d
	}
	return 0
}

// daemon is Daemon by the clock as it is now.
func (in Input) daemon() Daemon {
	d := in.Daemon
	d.Started, d.Config.Since = in.at(d.Started), in.at(d.Config.Since)
	return d
}
