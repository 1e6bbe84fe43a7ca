package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// inbox holds what the next sync takes: the latest table of each source, the facts
// about the node and requests for checks. A newer table replaces an older one. Tables
// are complete, so nothing is lost. Its methods may be called from any goroutine.
type inbox struct {
	mu        sync.Mutex
	now       func() time.Time
	tables    []sources.Table
	states    []SourceState
	delivered []bool // sources that have delivered any table
	facts     sources.HostFacts
	trusted   bool     // every table counts as complete: see trust
	times     times    // of the changes that no sync has taken yet
	check     bool     // a full check is requested that no sync has taken yet
	asked     CauseSet // of the check
	asks      uint64
	writers   []string // that changed rules since the last check of them
	wake      chan struct{}
}

func newInbox(feeds []Feed, facts sources.HostFacts, now func() time.Time) *inbox {
	in := &inbox{
		now: now, facts: facts, tables: make([]sources.Table, len(feeds)), states: make([]SourceState, len(feeds)),
		delivered: make([]bool, len(feeds)), wake: make(chan struct{}, 1),
	}
	for i, f := range feeds {
		in.states[i] = SourceState{Name: f.Name, Since: now()}
	}
	return in
}

// times are of changes: when a source noticed the oldest, and when the oldest arrived,
// read and parsed. Each is zero if there is none.
type times struct{ seen, emitted time.Time }

// oldest returns the older one of each time.
func (t times) oldest(o times) times {
	return times{seen: older(t.seen, o.seen), emitted: older(t.emitted, o.emitted)}
}

func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// put takes what a source emits and returns the state of the source after it.
func (in *inbox) put(i int, t sources.Table, err error) SourceState {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := &in.states[i]
	if (err == nil) != (s.Err == nil) {
		s.Since = in.now()
	}
	s.Err = err
	if !delivers(err) {
		return *s
	}
	var rejected *sources.RejectedError
	errors.As(err, &rejected)
	in.tables[i], in.delivered[i] = t, true
	s.Delivered = s.Delivered || in.trusted || err == nil || !rejected.Incomplete && !rejected.Nothing
	in.times = in.times.oldest(times{seen: t.Seen, emitted: in.now()})
	select {
	case in.wake <- struct{}{}:
	default: // the loop has not received the last one yet
	}
	return *s
}

// ask requests a full check and returns the number of the request. The sync that takes
// it also takes every table put before it.
func (in *inbox) ask(why Cause) uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.check, in.asked = true, in.asked|CausesOf(why)
	in.asks++
	return in.asks
}

// isAsked reports whether a full check is requested that no sync has taken yet.
func (in *inbox) isAsked() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.check
}

// mostWriters is how many processes are named.
const mostWriters = 3

// wrote notes who changed rules.
func (in *inbox) wrote(by []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, w := range by {
		if w != "" && len(in.writers) < mostWriters && !slices.Contains(in.writers, w) {
			in.writers = append(in.writers, w)
		}
	}
}

// takeWriters returns who changed rules since the last call.
func (in *inbox) takeWriters() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	by := strings.Join(in.writers, ", ")
	in.writers = nil
	return by
}

func (in *inbox) setFacts(facts sources.HostFacts) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.facts = facts
}

// input is what one sync works with.
type input struct {
	tables    []sources.Table // the latest of each source
	facts     sources.HostFacts
	waiting   []string // sources that have not delivered a complete table
	noneGiven []string // those of them that have not delivered any table
	times     times    // of the changes since the last take; zero without any
	check     bool     // a full check was requested since then
	asked     CauseSet // of the check
	asks      uint64   // number of the last request for one
}

// take empties the inbox, but for tables and facts.
func (in *inbox) take() input {
	in.mu.Lock()
	defer in.mu.Unlock()
	select {
	case <-in.wake: // its table is taken now
	default:
	}
	now := input{tables: slices.Clone(in.tables), facts: in.facts, times: in.times,
		check: in.check, asked: in.asked, asks: in.asks}
	in.times, in.check, in.asked = times{}, false, 0
	for i, s := range in.states {
		if s.Delivered {
			continue
		}
		now.waiting = append(now.waiting, s.Name)
		if !in.delivered[i] {
			now.noneGiven = append(now.noneGiven, s.Name)
		}
	}
	return now
}

// table returns the last table of a source, and whether it has delivered a complete
// one.
func (in *inbox) table(source string) (sources.Table, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, s := range in.states {
		if s.Name == source {
			return in.tables[i], s.Delivered
		}
	}
	return sources.Table{}, false
}

// complete reports whether every source has delivered a complete table.
func (in *inbox) complete() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !slices.ContainsFunc(in.states, func(s SourceState) bool { return !s.Delivered })
}

// trust makes an incomplete table count as complete. It is for a kernel without any
// object of ours: no table can lack what is served there.
func (in *inbox) trust() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.trusted = true
	for i := range in.states {
		in.states[i].Delivered = in.states[i].Delivered || in.delivered[i]
	}
}

// nothing returns the error of a source that has nothing and never had, if all others
// have delivered and have nothing either.
func (in *inbox) nothing() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	var found error
	for i, s := range in.states {
		var rejected *sources.RejectedError
		switch {
		case errors.As(s.Err, &rejected) && rejected.Nothing:
			found = fmt.Errorf("%s: %w", sources.WordsFor(s.Name).Name, s.Err)
		case !s.Delivered || in.tables[i].Services.Len() > 0:
			return nil
		}
	}
	return found
}

// snapshot returns the states of the sources.
func (in *inbox) snapshot() []SourceState {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.states)
}

// delivers reports whether a source has a table with this error. It has none if it could not read: the last one stays.
func delivers(err error) bool {
	var rejected *sources.RejectedError
	return err == nil || errors.As(err, &rejected)
}
