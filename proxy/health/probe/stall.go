package probe

import "time"

// stallWatch is how often the loop wakes at least while probes are running, to see whether this process runs.
const stallWatch = 100 * time.Millisecond

// leastStall is counted as a stall. A probe wakes about five times, so shorter ones do not add up to a timeout; on a
// machine that is merely busy each wake-up is some milliseconds late.
const leastStall = 100 * time.Millisecond

// stall measures how long this process did not run: it was stopped, or the machine has too much to do. A probe that
// failed in that time may have failed because nobody read the answer.
type stall struct {
	total time.Duration // since the epoch
	wakes time.Duration // when the loop has to wake next
}

// woke takes the time at which the loop woke.
func (s *stall) woke(now time.Duration) {
	s.total = s.until(now)
	s.wakes = max(s.wakes, now)
}

// until returns the total at a time, which may come before the loop has woken from a stall.
func (s *stall) until(now time.Duration) time.Duration {
	if late := now - s.wakes; late >= leastStall {
		return s.total + late
	}
	return s.total
}

// excuses reports whether a result may be due to this process: to not having run for a quarter of the timeout.
func excuses(o Outcome, stalled, timeout time.Duration) bool {
	return o.timed() && stalled > timeout/4
}

// timed reports whether a slow prober can be the cause of an outcome. A program of an exec probe has timeouts of its
// own, and no more of the processor than this process.
func (o Outcome) timed() bool {
	return o == Timeout || o == Reset || o == Closed || o == Exec
}
