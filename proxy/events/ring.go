package events

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Size is how many events a Ring keeps.
const Size = 1000

// Ring keeps the last Size events. Its zero value is empty and ready for use. Its
// methods may be called from any goroutine.
type Ring struct {
	mu    sync.Mutex
	kept  []Event       // event Seq is at (Seq-1-base) % Size
	base  uint64        // Seq before the first event that was restored; 0 if none was
	last  uint64        // Seq of the newest event; 0 = none yet
	added chan struct{} // closed at the next Add; nil if no reader waits

	series string
}

// Series identifies the numbers of the events: two runs of svcproxy whose Rings have the same one count on. It is "" if
// no File keeps the events.
func (r *Ring) Series() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.series
}

// Newest is the number of the newest event; 0 = none yet.
func (r *Ring) Newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// maxRestored bounds the number of a restored event, so that counting on does not overflow, not even in JSON.
const maxRestored = 1 << 50

// restore fills an empty Ring with the newest events of an earlier run. Their numbers count up to that of the last one.
func (r *Ring) restore(list []Event, series string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.series = series
	list = list[max(0, len(list)-Size):]
	if len(list) == 0 {
		return
	}
	if r.last = list[len(list)-1].Seq; r.last < uint64(len(list)) || r.last > maxRestored {
		r.last = uint64(len(list))
	}
	r.base = r.last - uint64(len(list))
	for i, e := range list {
		e.Seq = r.base + uint64(i) + 1
		r.kept = append(r.kept, e.bounded())
	}
}

// Add numbers events and keeps them. It wakes up readers.
func (r *Ring) Add(list ...Event) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range list {
		r.last++
		e.Seq = r.last
		if len(r.kept) < Size {
			r.kept = append(r.kept, e.bounded())
		} else {
			r.kept[(e.Seq-1-r.base)%Size] = e.bounded()
		}
	}
	if r.added != nil {
		close(r.added)
		r.added = nil
	}
}

// After returns the events after the one numbered seq, oldest first, how many of
// them were already dropped, and a channel that is closed at the next event. A
// number that does not exist yet is one of an earlier run and counts as 0.
func (r *Ring) After(seq uint64) (list []Event, lost uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.last {
		seq = 0
	}
	if forgotten := r.last - uint64(len(r.kept)); seq < forgotten {
		lost, seq = forgotten-seq, forgotten
	}
	for ; seq < r.last; seq++ {
		list = append(list, r.kept[(seq-r.base)%Size])
	}
	if r.added == nil {
		r.added = make(chan struct{})
	}
	return list, lost, r.added
}

// trimPartial drops the rest of a character that was cut, and spaces before it.
func trimPartial(s string) string {
	for len(s) > 0 {
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n > 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return strings.TrimRight(s, " ")
}
