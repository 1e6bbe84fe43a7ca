// Package dns replaces the DNS names among the backends of services by the addresses that they have, and does so again
// when an answer's TTL is over.
//
// What an answer changes is decided by pure functions: parse reads one message, entry.after says what a name stands for
// after an outcome. Names asks, keeps the answers, and knows when each name is due. A Source wraps another one, whose
// tables it completes.
//
// golang.org/x/net/dns/dnsmessage does the wire format: it is of Go's own resolver, bounds what it reads, and was among
// the requirements before.
package dns

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// firstWait is how long a table with new names waits for their first answers. A start waits as long for each source.
const firstWait = 2 * time.Second

// pause is the shortest time between two tables for changed answers.
const pause = 20 * time.Millisecond

// Source completes the tables of another source. Names.Of makes it.
type Source struct {
	sources.Source
	Names *Names

	mu    sync.Mutex // held while emitting
	table sources.Table
	err   error
	named []int // the services of table that have names
}

// Watch emits the tables of the other source with the endpoints of names, and again when these change.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	changed := make(chan struct{}, 1)
	following.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			s.mu.Lock()
			if s.named != nil {
				emit(s.resolved())
			}
			s.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(pause): // answers that come together are one change
			}
		}
	})
	return s.Source.Watch(ctx, func(t sources.Table, err error) {
		named, keys := namesOf(t)
		s.Names.want(ctx, s, keys, changed)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.table, s.err, s.named = t, err, named
		s.Names.wantOnly(s, keys)
		emit(s.resolved())
		s.table.Seen = time.Time{} // of the table, not of answers
	})
}

// resolved returns the table with what its names stand for now.
func (s *Source) resolved() (sources.Table, error) {
	if len(s.named) == 0 {
		s.say(nil)
		return s.table, s.err
	}
	t, doubts := Resolve(s.table, s.named, s.Names.Lookup)
	s.say(doubts)
	return t, s.err
}

func (s *Source) say(doubts []sources.Problem) {
	lines := make([]string, len(doubts))
	for i, d := range doubts {
		lines[i] = d.Error()
	}
	s.Names.said(s, lines)
}

// Progress is that of the other source.
func (s *Source) Progress() (done, of int) {
	if r, ok := s.Source.(interface{ Progress() (done, of int) }); ok {
		return r.Progress()
	}
	return 0, 0
}

// namesOf returns which services of a table have names, and what to ask for.
func namesOf(t sources.Table) (named []int, keys []Key) {
	for i, s := range t.Services.All() {
		if len(s.Names) == 0 || !s.Type.Serves() {
			continue
		}
		named = append(named, i)
		for j := range s.Names {
			keys = append(keys, keysOf(s, &s.Names[j])...)
		}
	}
	return named, keys
}

// keysOf returns what to ask for one name of a service: addresses of the families of its VIPs.
func keysOf(s *sources.Service, n *sources.Name) (keys []Key) {
	v4, v6 := s.Families()
	if v4 {
		keys = append(keys, Key{Host: n.Host, SRV: n.SRV})
	}
	if v6 {
		keys = append(keys, Key{Host: n.Host, SRV: n.SRV, V6: true})
	}
	return keys
}

// Resolve returns a table in which the services with some indexes have the endpoints of their names. The doubts are
// about names without addresses, with more than are used, and with addresses that no endpoint can have.
//
// A stale answer counts for a service that would have no endpoint of its family: that servers fail empties none.
func Resolve(t sources.Table, named []int, lookup func(Key) (Known, bool)) (sources.Table, []sources.Problem) {
	var doubts []sources.Problem
	t.Services = t.Services.With(named, func(i int) sources.Service {
		s := t.Services.At(i)
		now, left, stale := resolve(s, lookup, false, false)
		if stale {
			has := func(v6 bool) bool {
				return slices.ContainsFunc(now.Endpoints, func(e sources.Endpoint) bool { return e.Addr.Is6() == v6 })
			}
			now, left, _ = resolve(s, lookup, !has(false), !has(true))
		}
		doubts = append(doubts, left...)
		return now
	})
	return t, doubts
}

// resolve resolves the names of a service, with stale answers of some families. It reports whether there is one.
func resolve(s *sources.Service, lookup func(Key) (Known, bool), stale4, stale6 bool) (
	now sources.Service, doubts []sources.Problem, stale bool) {
	doubt := func(n *sources.Name, format string, args ...any) {
		doubts = append(doubts, sources.Problem{Service: s.FullName(), Origin: s.Origin,
			Message: fmt.Sprintf("backend %s: ", n) + fmt.Sprintf(format, args...)})
	}
	now, left := s.Resolved(func(n *sources.Name) (all []sources.NameAddress) {
		why := "is not resolved yet"
		for _, k := range keysOf(s, n) {
			known, ok := lookup(k)
			if !ok {
				continue
			}
			why = cmp.Or(known.Why, why)
			if known.Stale {
				stale = true
				if k.V6 && !stale6 || !k.V6 && !stale4 {
					why += fmt.Sprintf(": the last good answer, of %s, counts no longer", day(known.Good))
					continue
				}
			}
			all = append(all, known.Addresses...)
			if known.Cut > 0 {
				doubt(n, "has %d addresses more than the %d that are used", known.Cut, sources.MostAddresses)
			}
			for _, lost := range known.Lost {
				doubt(n, "%s", lost)
			}
			switch {
			case len(known.Addresses) == 0 || known.Why == "" && !known.Stale:
			case known.Until.IsZero():
				doubt(n, "%s: the last good answer is used, of %s: the service has no other", why, day(known.Good))
			default:
				doubt(n, "%s: the last good answer is used until %s", why, clock(known.Until, known.Until.Sub(known.Good)))
			}
		}
		if len(all) == 0 {
			doubt(n, "%s: it stands for no endpoint", why)
		}
		return all
	})
	return now, append(doubts, left...), stale
}

// Once resolves the names of a table once, for a command. Of a name that fails it takes the answer that the daemon
// kept.
func Once(ctx context.Context, o Options, t sources.Table) (sources.Table, []sources.Problem) {
	named, keys := namesOf(t)
	if len(named) == 0 {
		return t, nil
	}
	names := New(o)
	defer names.client.rest()
	ctx, stop := context.WithTimeout(ctx, onceLimit)
	defer stop()
	var running sync.WaitGroup
	room := make(chan struct{}, mostParallel)
	slices.SortFunc(keys, Key.compare)
	keys = slices.Compact(keys)
	for _, k := range keys[:min(len(keys), mostNames)] {
		e := names.entry(k)
		room <- struct{}{}
		running.Go(func() {
			names.ask(ctx, k, e)
			<-room
		})
	}
	running.Wait()
	return Resolve(t, named, names.Lookup)
}

// onceLimit bounds the time of Once.
const onceLimit = 30 * time.Second
