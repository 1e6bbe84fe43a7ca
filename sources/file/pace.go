package file

import "time"

// pace bounds how often files are read. The first event after a pause has them read at once; while changes follow each
// other, the time between two readings doubles, up to 8 debounces.
type pace struct {
	last time.Time     // of a reading
	gap  time.Duration // from last to the next one, at least
}

// next is when an event may have files read.
func (p pace) next() time.Time { return p.last.Add(p.gap) }

// series reports whether changes follow each other.
func (p pace) series(at time.Time, debounce time.Duration) bool { return at.Sub(p.last) <= 8*debounce }

// read returns the pace after a reading.
func (p pace) read(at time.Time, debounce time.Duration) pace {
	if !p.series(at, debounce) {
		return pace{at, debounce}
	}
	return pace{at, min(2*p.gap, 8*debounce)}
}
