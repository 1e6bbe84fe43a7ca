package health

import (
	"cmp"
	"slices"
	"time"
	"unique"
)

// In a mass failure most of what was up goes down at once: more than half of all targets, of all services and of all
// authors. The likelier cause is then this node's own link or route, and the last states are held for massHold: long
// enough for a spanning tree or a routing protocol. Less than massServices services tell nothing of the node.
const (
	massServices = 3
	massHold     = time.Minute
	// massWindow bounds the time in which targets go down "at once", since an author chooses intervals and timeouts.
	massWindow = time.Minute
)

// mass notices a mass failure. Each target costs the same, however many fall.
type mass struct {
	window   time.Duration // the longest detection time of any target
	recent   []fallen      // in order of time; those count whose target has the same time
	services map[int32]*tally
	authors  map[author]*tally // of services, those that failed are fallen
	targets  tally
	served   tally     // of services
	wrote    tally     // of authors
	until    time.Time // of the hold under way; zero if there is none
	begin    time.Time // of it: when the first target went down
}

type author = unique.Handle[string]

// tally counts what is up, and what went down lately.
type tally struct {
	up, fell int
	author   author // of a service
}

func (t tally) all() int { return t.up + t.fell }

// failed reports whether a service or an author has lost half of what was up.
func (t tally) failed() bool { return t.fell > 0 && t.fell >= t.up }

// most reports whether more than half went down.
func (t tally) most() bool { return t.fell > t.up }

func (t *tally) add(n int, fell bool) {
	if fell {
		t.fell += n
	} else {
		t.up += n
	}
}

// fallen is a target that went down.
type fallen struct {
	key Key
	at  time.Time
}

func (m *mass) holding() bool { return !m.until.IsZero() }

// Holding returns until when the last states are held because of a mass failure; zero if they are not.
func (b *Board) Holding() time.Time { return b.mass.until }

// window returns the time in which a failure of all targets at once is detected for all of them. It is more than an
// interval: of the probes that a dead link fails, some are refused a route at once, and others wait for their timeout.
func window(targets []Target) time.Duration {
	longest := time.Duration(0)
	for i := range targets {
		p, timeout := &targets[i].Pace, targets[i].Probe.Value().Timeout
		again := time.Duration(p.Fall-1) * (cmp.Or(p.FastInterval, p.Interval) + timeout)
		longest = max(longest, p.Interval+timeout+again)
	}
	return min(longest, massWindow)
}

// count adds a target to what is up, or to what went down lately, or takes it out again.
func (m *mass) count(services []usedBy, n int, fell bool) {
	m.targets.add(n, fell)
	for _, s := range services {
		t := m.services[s.index]
		if t == nil {
			if m.services == nil {
				m.services, m.authors = map[int32]*tally{}, map[author]*tally{}
			}
			t = &tally{author: s.author}
			m.services[s.index] = t
		}
		was := *t
		if t.add(n, fell); t.all() == 0 {
			delete(m.services, s.index)
		}
		m.vote(was, *t)
	}
}

// vote brings up to date what services and authors say after a service has changed.
func (m *mass) vote(was, is tally) {
	by := m.authors[is.author]
	if by == nil {
		by = &tally{}
		m.authors[is.author] = by
	}
	before := *by
	change := func(t *tally, x tally, n int) {
		if x.all() > 0 {
			t.add(n, x.failed())
		}
	}
	for _, t := range []*tally{by, &m.served} {
		change(t, was, -1)
		change(t, is, +1)
	}
	change(&m.wrote, before, -1)
	change(&m.wrote, *by, +1)
	if by.all() == 0 {
		delete(m.authors, is.author)
	}
}

// recount brings up to date what a target counts for: up, or fallen if it has a time at which it fell.
func (b *Board) recount(x *tracked) {
	b.uncount(x)
	switch {
	case x.Phase.IsUp():
		x.counts = countsUp
	case !x.fell.IsZero():
		x.counts = countsFell
	default:
		return
	}
	b.mass.count(x.services, +1, x.counts == countsFell)
}

func (b *Board) uncount(x *tracked) {
	if x.counts != 0 {
		b.mass.count(x.services, -1, x.counts == countsFell)
		x.counts = 0
	}
}

// What a target counts for in a mass.
const (
	countsUp = iota + 1
	countsFell
)

// fell notes that a target went down that was up, and decides whether that is a mass failure, or a part of the one that
// is held.
func (b *Board) fell(k Key, x *tracked, now time.Time) []Event {
	m := &b.mass
	old := 0
	for ; old < len(m.recent) && now.Sub(m.recent[old].at) > m.window; old++ {
		if f := m.recent[old]; b.targets[f.key] != nil && b.targets[f.key].fell.Equal(f.at) {
			b.forget(b.targets[f.key])
		}
	}
	m.recent = append(m.recent[old:], fallen{k, now})
	lost := b.lost(x)
	x.fell = now
	b.recount(x)
	switch {
	case m.holding() && now.Sub(m.begin) > m.window: // it did not go down together with the others
	case m.holding() && lost: // then those before it are held
		x.Held, m.recent = true, m.recent[:len(m.recent)-1]
		return []Event{{Kind: IsHeld, At: now, Key: k, Verdict: x.Verdict}}
	case m.holding():
		return b.hold(now)
	case m.targets.most() && m.served.most() && m.wrote.most() && m.served.fell >= massServices:
		return b.massFailed(now)
	}
	return nil
}

// forget no longer counts a target as fallen, if it was.
func (b *Board) forget(x *tracked) {
	if !x.fell.IsZero() {
		x.fell = time.Time{}
		b.recount(x)
	}
}

// massFailed begins a mass failure.
func (b *Board) massFailed(now time.Time) []Event {
	m := &b.mass
	events := []Event{{Kind: MassFailure, At: now, Down: m.targets.fell, Of: m.targets.all()}}
	if b.Believe {
		for _, f := range m.recent {
			if x := b.targets[f.key]; x != nil && x.fell.Equal(f.at) {
				b.forget(x)
			}
		}
		m.recent = nil
		return events
	}
	m.until, m.begin = now.Add(massHold), now
	for _, f := range m.recent {
		if x := b.targets[f.key]; x != nil && x.fell.Equal(f.at) {
			m.begin = f.at
			break
		}
	}
	return append(events, b.hold(now)...)
}

// hold holds the targets that went down together, of services that have lost half of theirs: a service that
// has lost less does without. They still count as fallen.
func (b *Board) hold(now time.Time) (events []Event) {
	var rest []fallen
	for _, f := range b.mass.recent {
		x := b.targets[f.key]
		switch {
		case x == nil || !x.fell.Equal(f.at):
		case b.lost(x):
			x.Held = true
			events = append(events, Event{Kind: IsHeld, At: now, Key: f.key, Verdict: x.Verdict})
		default:
			rest = append(rest, f)
		}
	}
	b.mass.recent = rest
	return events
}

// lost reports whether any service of a target has lost half of its targets.
func (b *Board) lost(x *tracked) bool {
	return slices.ContainsFunc(x.services, func(s usedBy) bool {
		t := b.mass.services[s.index]
		return t != nil && t.failed()
	})
}

// release ends a hold.
func (b *Board) release() {
	b.mass.until = time.Time{}
	for _, x := range b.targets {
		b.forget(x)
	}
	b.mass.recent = nil
}
