package dns

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/sources"
)

// Options say how names are resolved.
type Options struct {
	Policy
	Servers []netip.AddrPort // none: those of /etc/resolv.conf

	// Keep is the file for good answers, which the next start uses until there are newer ones. "" = none.
	Keep string
	// Keeper repeats what could not be written there.
	Keeper *statefile.Keeper
}

const (
	// mostParallel is how many names are asked for at the same time.
	mostParallel = 32
	// mostNames is how many Keys are asked for at all.
	mostNames = 10_000
	// tick is the shortest time between two looks for names that are due.
	tick = 50 * time.Millisecond
)

// Names resolves names again and again, for any number of Sources. Its methods may be called from any goroutine.
type Names struct {
	o      Options
	client client
	now    func() time.Time
	wake   chan struct{}

	mu      sync.Mutex
	entries map[Key]*entry
	running map[Key]bool
	users   map[*Source]user
	tried   chan struct{} // closed and replaced when a name was asked for the first time
	kept    kept
}

// user is what a Source wants to know.
type user struct {
	keys    map[Key]bool
	started bool // it had a table
	changed chan<- struct{}
	doubts  []string
}

// New returns Names with the answers that an earlier run kept.
func New(o Options) *Names {
	n := &Names{o: o, now: time.Now, wake: make(chan struct{}, 1), entries: map[Key]*entry{}, running: map[Key]bool{},
		users: map[*Source]user{}, tried: make(chan struct{}), kept: kept{path: o.Keep, changed: make(chan struct{}, 1)}}
	n.client.servers = new(hostServers).servers
	if len(o.Servers) > 0 {
		n.client.servers = func() []netip.AddrPort { return o.Servers }
	}
	n.recall()
	return n
}

// Bad counts messages that were no answers to a question: forged ones, mostly.
func (n *Names) Bad() uint64 { return n.client.bad.Load() }

// Of returns a Source that completes the tables of another one. Make those of all sources before the first one runs:
// kept answers that no table wants are dropped when each had one.
func (n *Names) Of(s sources.Source) *Source {
	completed := &Source{Source: s, Names: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users[completed] = user{}
	return completed
}

// Lookup returns what a name stands for. It is false if the name was never asked for, but will be.
func (n *Names) Lookup(k Key) (Known, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.entries[k]
	switch {
	case e == nil:
		return Known{Why: fmt.Sprintf("is not asked for: %d names are the most", mostNames)}, true
	case !e.asked && len(e.Addresses) == 0:
		return Known{}, false
	}
	return e.Known, true
}

// Warnings are about the names of all sources, one line each.
func (n *Names) Warnings() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, u := range n.users {
		all = append(all, u.doubts...)
	}
	slices.Sort(all)
	return all
}

func (n *Names) said(s *Source, lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	u := n.users[s]
	u.doubts = lines
	n.users[s] = u
}

// want has names asked for, besides those that the Source wanted before: its last table is used until the new one is
// complete. It returns when each has been asked for, or has an answer that was kept and is not stale, after
// firstWait at the latest.
func (n *Names) want(ctx context.Context, s *Source, keys []Key, changed chan<- struct{}) {
	n.mu.Lock()
	u := n.users[s]
	u.changed = changed
	if u.keys == nil {
		u.keys = map[Key]bool{}
	}
	for _, k := range keys {
		u.keys[k] = true
	}
	n.users[s] = u
	n.fill()
	n.mu.Unlock()
	n.look()
	for patience := time.After(firstWait); ; {
		tried, all := n.allTried(keys)
		if all {
			return
		}
		select {
		case <-tried:
		case <-patience:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wantOnly drops the names that the Source wanted before, when it has the table with new ones.
func (n *Names) wantOnly(s *Source, keys []Key) {
	n.mu.Lock()
	u := n.users[s]
	u.keys, u.started = map[Key]bool{}, true
	for _, k := range keys {
		u.keys[k] = true
	}
	n.users[s] = u
	started := true
	for _, u := range n.users {
		started = started && u.started
	}
	for k, e := range n.entries {
		if (e.asked || started) && !n.wanted(k) {
			delete(n.entries, k)
		}
	}
	n.fill()
	n.mu.Unlock()
	n.look()
}

// fill makes entries for names that are wanted: mostNames, the first ones by name.
func (n *Names) fill() {
	room := mostNames
	for k := range n.entries {
		if n.wanted(k) {
			room--
		}
	}
	var missing []Key
	for _, u := range n.users {
		for k := range u.keys {
			if n.entries[k] == nil {
				missing = append(missing, k)
			}
		}
	}
	slices.SortFunc(missing, Key.compare)
	missing = slices.Compact(missing)
	for _, k := range missing[:min(len(missing), max(room, 0))] {
		n.entries[k] = &entry{}
	}
}

// wanted reports whether any Source wants a name.
func (n *Names) wanted(k Key) bool {
	for _, u := range n.users {
		if u.keys[k] {
			return true
		}
	}
	return false
}

func (n *Names) allTried(keys []Key) (tried <-chan struct{}, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tried, !slices.ContainsFunc(keys, func(k Key) bool {
		e := n.entries[k]
		return e != nil && !e.asked && (len(e.Addresses) == 0 || e.Stale)
	})
}

func (n *Names) look() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// entry returns what is known of a name, for Once.
func (n *Names) entry(k Key) *entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.entries[k] == nil {
		n.entries[k] = &entry{}
	}
	return n.entries[k]
}

// Run asks for names when they are due, until ctx ends. Then it writes down what it knows.
func (n *Names) Run(ctx context.Context) {
	room := make(chan struct{}, mostParallel)
	var running sync.WaitGroup
	defer n.client.rest()
	running.Go(func() { n.keepAll(ctx) })
	defer running.Wait()
	for {
		keys, next := n.due()
		for _, k := range keys {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer func() { <-room }()
				n.ask(ctx, k.Key, k.entry)
				n.look()
			})
		}
		if len(keys) == 0 && next.Sub(n.now()) > time.Second {
			n.client.rest()
		}
		// No sooner than a tick, whatever wakes it: names that are due together cost one look.
		if !sleep(ctx, tick, nil) || !sleep(ctx, next.Sub(n.now()), n.wake) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-t.C:
	}
	return true
}

type dueKey struct {
	Key
	*entry
}

// due returns the names to ask for now, those that wait the longest first, and when the next one is due.
func (n *Names) due() (keys []dueKey, next time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	next = now.Add(time.Minute)
	for k, e := range n.entries {
		switch {
		case n.running[k] || !n.wanted(k):
		case !now.Before(e.due):
			keys = append(keys, dueKey{k, e})
			n.running[k] = true
		case e.due.Before(next):
			next = e.due
		}
	}
	slices.SortFunc(keys, func(a, b dueKey) int { return a.entry.due.Compare(b.entry.due) })
	return keys, next
}

// ask asks for a name and takes the outcome.
func (n *Names) ask(ctx context.Context, k Key, e *entry) {
	a, err := n.client.resolve(ctx, k)
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.running, k)
	if ctx.Err() != nil && err != nil || n.entries[k] != e {
		return // the process ends, or nobody wants it any more
	}
	first := !e.asked
	next, changed := e.after(a, err, n.now(), n.o.Policy)
	*e = next
	if first {
		close(n.tried)
		n.tried = make(chan struct{})
	}
	if !changed {
		return
	}
	select {
	case n.kept.changed <- struct{}{}:
	default: // it is written soon
	}
	for _, u := range n.users {
		if u.keys[k] {
			select {
			case u.changed <- struct{}{}:
			default: // it will look at all of them
			}
		}
	}
}
