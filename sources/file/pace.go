package file

import "time"

// pace bounds how often events have files read. The first event after a pause has them read at once; while changes
// follow each other, the time between two readings doubles, up to 8 debounces.
type pace struct {
	last time.Time     // of a reading for an event
	gap  time.Duration // from last to the next one, at least
}

// next is when an event may have files read.
func (p pace) next() time.Time { return p.last.Add(p.gap) }

// read returns the pace after a reading.
func (p pace) read(at time.Time, debounce time.Duration) pace {
	if at.Sub(p.last) > 8*debounce {
		return pace{at, debounce}
	}
	return pace{at, min(2*p.gap, 8*debounce)}
}
