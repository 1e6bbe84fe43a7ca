package proxy

import (
	"errors"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Feed is a source with the name it has in messages. Feeds are merged in their
// order: the earlier one wins.
type Feed struct {
	Name   string
	Source sources.Source
}

// SourceState is how a source stands.
type SourceState struct {
	Name string
	// Spoken: it has delivered a complete table.
	Spoken bool
	// Err is what was wrong with what it read last, nil if nothing was, and
	// Since when that is so.
	Err   error
	Since time.Time
}

// inbox holds the latest table of each source. Older ones are overwritten: a
// table is complete, so nothing is lost by it.
type inbox struct {
	mu     sync.Mutex
	now    func() time.Time
	tables []sources.Table
	states []SourceState
	first  time.Time // of the changes not yet taken; zero if there are none
	wake   chan struct{}
}

func newInbox(feeds []Feed, now func() time.Time) *inbox {
	in := &inbox{
		now: now, tables: make([]sources.Table, len(feeds)), states: make([]SourceState, len(feeds)),
		wake: make(chan struct{}, 1),
	}
	for i, f := range feeds {
		in.states[i] = SourceState{Name: f.Name, Since: now()}
	}
	return in
}

// put is what a source emits.
func (in *inbox) put(i int, t sources.Table, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := &in.states[i]
	if (err == nil) != (s.Err == nil) {
		s.Since = in.now()
	}
	s.Err = err
	var rejected *sources.RejectedError
	partial := errors.As(err, &rejected)
	if err != nil && !partial {
		return // could not read: the last table stays
	}
	in.tables[i] = t
	s.Spoken = s.Spoken || err == nil || !rejected.Incomplete
	if in.first.IsZero() {
		in.first = in.now()
	}
	select {
	case in.wake <- struct{}{}:
	default: // it is awake already
	}
}

// take gives the latest tables, whether every source has spoken, and when the
// oldest change in them came, zero if nothing came since the last take.
func (in *inbox) take() (tables []sources.Table, complete bool, since time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	since, in.first = in.first, time.Time{}
	complete = true
	for _, s := range in.states {
		complete = complete && s.Spoken
	}
	return append([]sources.Table(nil), in.tables...), complete, since
}

func (in *inbox) complete() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.states {
		if !s.Spoken {
			return false
		}
	}
	return true
}

// snapshot is how the sources stand.
func (in *inbox) snapshot() []SourceState {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]SourceState(nil), in.states...)
}
