package proxy

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Feed is a source with the name it has in messages. Feeds are merged in their
// order: the earlier one wins.
type Feed struct {
	Name   string
	Source sources.Source
	// Said is what is wrong with the source and in the log already; nil if nothing is.
	Said error
}

// SourceState is how a source stands.
type SourceState struct {
	Name string
	// Spoken: it has delivered a complete table.
	Spoken bool
	// Progress is how far it is with its first reading, in words; "" if it does not
	// say or has spoken.
	Progress string
	// Err is what was wrong with what it read last, nil if nothing was, and
	// Since when that is so.
	Err   error
	Since time.Time
}

// times are when the oldest of some changes was noticed by its source, and when
// the oldest came to the loop, read and parsed. Zero if there is none.
type times struct{ seen, emitted time.Time }

// oldest is of both the older ones.
func (t times) oldest(o times) times {
	return times{seen: older(t.seen, o.seen), emitted: older(t.emitted, o.emitted)}
}

func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// inbox holds the latest table of each source. Older ones are overwritten: a
// table is complete, so nothing is lost by it.
type inbox struct {
	mu     sync.Mutex
	now    func() time.Time
	tables []sources.Table
	states []SourceState
	given  []bool // sources that have delivered anything
	facts  sources.HostFacts
	bare   bool  // what they deliver is all there can be: see trust
	times  times // of the changes not yet taken
	asked  Cause // of a full check not yet taken; "" if nobody asks
	asks   uint64
	wake   chan struct{}
}

func newInbox(feeds []Feed, facts sources.HostFacts, now func() time.Time) *inbox {
	in := &inbox{
		now: now, facts: facts, tables: make([]sources.Table, len(feeds)), states: make([]SourceState, len(feeds)), given: make([]bool, len(feeds)),
		wake: make(chan struct{}, 1),
	}
	for i, f := range feeds {
		in.states[i] = SourceState{Name: f.Name, Since: now()}
	}
	return in
}

// put is what a source emits. It gives how the source stands after that.
func (in *inbox) put(i int, t sources.Table, err error) SourceState {
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
		return *s // could not read: the last table stays
	}
	in.tables[i], in.given[i] = t, true
	s.Spoken = s.Spoken || in.bare || err == nil || !rejected.Incomplete && !rejected.Nothing
	in.times = in.times.oldest(times{seen: t.Seen, emitted: in.now()})
	select {
	case in.wake <- struct{}{}:
	default: // it is awake already
	}
	return *s
}

// ask asks for a full check and returns the number of the request. The sync that
// takes it also takes every table put before it.
func (in *inbox) ask(why Cause) uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.asked == "" {
		in.asked = why
	}
	in.asks++
	return in.asks
}

// isAsked says whether a full check was asked for that no sync has taken yet.
func (in *inbox) isAsked() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.asked != ""
}

func (in *inbox) setFacts(facts sources.HostFacts) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.facts = facts
}

// taken is what one sync works with.
type taken struct {
	tables  []sources.Table // the latest of each source
	facts   sources.HostFacts
	waiting []string // the sources that have not spoken yet
	silent  []string // those of them that have not given a table at all
	since   times    // of the changes; zero if nothing came since the last take
	asked   Cause    // for a full check; "" if nobody has since the last take
	asks    uint64   // the number of the last request for one
}

func (in *inbox) take() taken {
	in.mu.Lock()
	defer in.mu.Unlock()
	select {
	case <-in.wake: // what it told of is taken now
	default:
	}
	t := taken{tables: append([]sources.Table(nil), in.tables...), facts: in.facts, since: in.times, asked: in.asked, asks: in.asks}
	in.times, in.asked = times{}, ""
	for i, s := range in.states {
		if s.Spoken {
			continue
		}
		t.waiting = append(t.waiting, s.Name)
		if !in.given[i] {
			t.silent = append(t.silent, s.Name)
		}
	}
	return t
}

// table is the last of a source, and whether it has delivered one.
func (in *inbox) table(source string) (sources.Table, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, s := range in.states {
		if s.Name == source {
			return in.tables[i], s.Spoken
		}
	}
	return sources.Table{}, false
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

// trust says that the kernel has nothing that a table could lack: an incomplete
// one is as good as any.
func (in *inbox) trust() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bare = true
	for i := range in.states {
		in.states[i].Spoken = in.states[i].Spoken || in.given[i]
	}
}

// nothing is the error of a source that has nothing and never had, if the others
// have delivered, and nothing either.
func (in *inbox) nothing() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	var found error
	for i, s := range in.states {
		var rejected *sources.RejectedError
		switch {
		case errors.As(s.Err, &rejected) && rejected.Nothing:
			found = fmt.Errorf("source %s: %w", s.Name, s.Err)
		case !s.Spoken || len(in.tables[i].Services) > 0:
			return nil
		}
	}
	return found
}

// snapshot is how the sources stand.
func (in *inbox) snapshot() []SourceState {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]SourceState(nil), in.states...)
}
