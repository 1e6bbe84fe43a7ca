package status

import "time"

// leastStep is the smallest change of the machine's clock that times follow. The two
// clocks are not read at the same instant, so smaller differences mean nothing.
const leastStep = time.Second

// at converts a time of this process to UTC. If the machine's clock was set since,
// at shifts the time by as much. So Status.Time minus that time is how long ago it
// was.
func (in Input) at(t time.Time) time.Time {
	if t.IsZero() {
		return t.UTC()
	}
	return t.Add(step(in.Now.Sub(t), in.Now.Round(0).Sub(t.Round(0)))).UTC() // Round(0) strips the monotonic clock
}

// step is by how much the clock was set: this much time elapsed, but the clock
// shows another duration.
func step(elapsed, shown time.Duration) time.Duration {
	if d := shown - elapsed; d.Abs() >= leastStep {
		return d
	}
	return 0
}

// daemon is Daemon with its times by the clock of now.
func (in Input) daemon() Daemon {
	d := in.Daemon
	d.Started, d.Config.Since = in.at(d.Started), in.at(d.Config.Since)
	return d
}
