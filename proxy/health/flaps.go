package health

import "time"

// A target flaps if it changes more than flapChanges times in flapWindow. Each further change doubles the number
// of good results that it takes to come up, to dampedRise at most. A target that does not change for flapWindow is
// calm again.
const (
	flapChanges = 5
	flapWindow  = 5 * time.Minute
	dampedRise  = 10
)

// flapsFrom is what the times of flaps count from. It has a monotonic clock, as the times of results have, so
// that setting the wall clock changes nothing. No flaps outlive the process.
var flapsFrom = time.Now()

// flaps are the last changes of a target, oldest first, since flapsFrom; 0 = none.
type flaps struct {
	at        [flapChanges]time.Duration
	doublings uint8 // of the rise; 0 = not flapping
}

// changed returns flaps with one more change.
func (f flaps) changed(now time.Time) flaps {
	t := now.Sub(flapsFrom)
	oldest := f.at[0]
	if f.doublings > 0 || oldest != 0 && t-oldest < flapWindow {
		f.doublings = min(f.doublings+1, dampedRise)
	}
	copy(f.at[:], f.at[1:])
	f.at[flapChanges-1] = t
	return f
}

// calmed returns flaps that are over if the last change is long ago.
func (f flaps) calmed(now time.Time) flaps {
	if f.doublings > 0 && now.Sub(flapsFrom)-f.at[flapChanges-1] >= flapWindow {
		f.doublings = 0
	}
	return f
}

// rise returns the damped number of good results; a larger number that was configured stays.
func (f flaps) rise(configured int) int {
	n := max(configured, 1)
	for range f.doublings {
		if n >= dampedRise {
			break
		}
		n = min(2*n, dampedRise)
	}
	return n
}
