package health

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Board has the state of all targets, and judges what concerns all of them: a mass failure, and its own blindness.
// It has no clock: the results and Tick tell it the time. One goroutine uses it.
type Board struct {
	// Believe: a mass failure is noted, but the states count at once. If it is set during a hold, the next Tick ends
	// the hold.
	Believe bool

	targets map[Key]*tracked
	mass    mass
	sight   sight
	dark    map[Key]struct{}    // targets whose last probes told nothing
	reached map[int32]time.Time // when a service last had a good result
}

// tracked is a target with its verdict.
type tracked struct {
	Verdict
	pace     Pace
	services []usedBy
	fell     time.Time // when it went down, if that counts for a mass failure
	counts   uint8     // in mass: see recount
	unsent   time.Time // since when this node has not been able to send a probe of it
}

// usedBy is a service that uses a target.
type usedBy struct {
	index  int32
	author author
}

// SetTargets takes over the targets of a new table, and forgets all others: see Update.
func (b *Board) SetTargets(targets []Target, initial map[Key]Verdict, now time.Time) []Event {
	gone := make(map[Key]bool, len(b.targets))
	for k := range b.targets {
		gone[k] = true
	}
	for i := range targets {
		delete(gone, targets[i].Key)
	}
	b.mass.window, b.reached = 0, nil
	for _, x := range b.targets {
		b.uncount(x) // the services may have other indexes now
	}
	return b.Update(targets, slices.Collect(maps.Keys(gone)), initial, now)
}

// Inherited returns the verdicts with which targets of a new table start, nil if there are none. Where a
// service has another probe than before, its endpoints are as up, held or down as they were by the old one:
// an edit of a check moves no connection. The board must have the targets of the earlier table.
func (b *Board) Inherited(before, now sources.Table) map[Key]Verdict {
	var verdicts map[Key]Verdict
	var intern interned
	for _, c := range sources.Compare(before, now).Changes {
		if !c.Service || c.Was < 0 || c.Is < 0 {
			continue
		}
		was, is := before.Services.At(c.Was), now.Services.At(c.Is)
		if !checked(was) || !checked(is) || was.HealthCheck.Probe == is.HealthCheck.Probe {
			continue
		}
		for i := range is.Endpoints {
			e := &is.Endpoints[i]
			for k := range e.Ports {
				to, ok := intern.key(is, e, k)
				old, port := samePort(was, e, k)
				if !ok || old == nil || b.targets[to] != nil {
					continue
				}
				from, _ := intern.key(was, old, port)
				x := b.targets[from]
				if x == nil || x.Phase == Unknown {
					continue
				}
				if verdicts == nil {
					verdicts = map[Key]Verdict{}
				}
				verdicts[to] = x.inherited()
			}
		}
	}
	return verdicts
}

// inherited returns the verdict with which a target starts that takes over from x.
func (x *tracked) inherited() Verdict {
	s := State{
		Phase: verdict(x.Phase.IsUp()), Changed: x.Changed, Reason: x.Reason,
		Percent: x.Percent, Ask: x.Ask, Said: x.Said, proven: x.proven,
	}
	return Verdict{State: s, Held: x.Held}
}

// samePort returns the endpoint of a service, and the index of its port, that are an endpoint's port of a
// later table; nil if there is none.
func samePort(was *sources.Service, e *sources.Endpoint, port int) (*sources.Endpoint, int) {
	at, _ := slices.BinarySearchFunc(was.Endpoints, e.Addr, func(o sources.Endpoint, a netip.Addr) int {
		return o.Addr.Compare(a)
	})
	for ; at < len(was.Endpoints) && was.Endpoints[at].Addr == e.Addr; at++ { // one for each port number
		if i := slices.Index(was.Endpoints[at].Ports, e.Ports[port]); i >= 0 {
			return &was.Endpoints[at], i
		}
	}
	return nil, 0
}

// Update takes over targets that differ in a new table, and forgets those that are gone. Targets that were
// there keep their state. The others start with the verdict in initial, or without a result. The events tell
// which new targets have a state, and what is gone.
func (b *Board) Update(targets []Target, gone []Key, initial map[Key]Verdict, now time.Time) (events []Event) {
	if b.targets == nil {
		b.targets = make(map[Key]*tracked, len(targets))
	}
	for i := range targets {
		t := &targets[i]
		x := b.targets[t.Key]
		if x == nil {
			x = &tracked{Verdict: initial[t.Key]}
			x.Held = x.Held && b.mass.holding() // the hold may have ended since: Tick would not release it
			b.targets[t.Key] = x
			if x.Verdict != (Verdict{}) {
				events = append(events, Event{Kind: IsAdded, At: now, Key: t.Key, Verdict: x.Verdict})
			}
		}
		b.use(x, t)
	}
	// A target with a long detection time may be gone. Its window stays until the next SetTargets.
	b.mass.window = max(b.mass.window, window(targets))
	sources.SortFunc(gone, Key.compare)
	for _, k := range gone {
		b.uncount(b.targets[k])
		delete(b.targets, k)
		delete(b.dark, k)
		events = append(events, Event{Kind: IsGone, At: now, Key: k})
	}
	if len(b.targets) == 0 {
		events = append(events, b.sight.rest(now)...)
	}
	return events
}

// use notes which services use a target, and its pace.
func (b *Board) use(x *tracked, t *Target) {
	b.uncount(x)
	x.pace, x.services = t.Pace, x.services[:0]
	for _, u := range t.Users {
		if n := len(x.services); n == 0 || x.services[n-1].index != u.Service {
			x.services = append(x.services, usedBy{u.Service, u.Author})
		}
	}
	b.recount(x)
}

// Changed returns the targets that may differ between two tables with the same services, if only endpoints of some
// services, by index, changed, and the targets that are gone. The board must have the targets of the earlier table.
func (b *Board) Changed(before, now sources.Table, services []int32) (targets []Target, gone []Key) {
	differ := map[Key]bool{}
	for _, t := range []sources.Table{before, now} {
		for _, x := range TargetsOf(t, services) {
			differ[x.Key] = true
		}
	}
	// Other services may use the same targets.
	users := slices.Clone(services)
	for k := range differ {
		if x := b.targets[k]; x != nil {
			for _, s := range x.services {
				users = append(users, s.index)
			}
		}
	}
	slices.Sort(users)
	targets = slices.DeleteFunc(TargetsOf(now, slices.Compact(users)), func(x Target) bool { return !differ[x.Key] })
	for i := range targets {
		delete(differ, targets[i].Key)
	}
	return targets, slices.Collect(maps.Keys(differ))
}

// ServicesOf names the services that use any of some targets, sorted. The board must have the targets of the table.
func (b *Board) ServicesOf(t sources.Table, keys ...Key) []string {
	users := map[int32]bool{}
	for _, k := range keys {
		if x := b.targets[k]; x != nil {
			for _, s := range x.services {
				users[s.index] = true
			}
		}
	}
	names := make([]string, 0, len(users))
	for i := range users {
		names = append(names, t.Services.At(int(i)).DisplayName())
	}
	slices.Sort(names)
	return names
}

// Verdicts returns a copy of all verdicts.
func (b *Board) Verdicts() Verdicts {
	v := Verdicts{Of: make(map[Key]Verdict, len(b.targets)), Blind: b.sight.void}
	for k, x := range b.targets {
		v.Of[k] = x.Verdict
	}
	return v
}

// Verdict returns that of one target; its zero if there is no such target.
func (b *Board) Verdict(k Key) Verdict {
	if x := b.targets[k]; x != nil {
		return x.Verdict
	}
	return Verdict{}
}

// Said returns what the agent of a target has said; its zero if there is no such target.
func (b *Board) Said(k Key) Said {
	if x := b.targets[k]; x != nil {
		return x.Said
	}
	return Said{}
}

// Next returns how long after its last probe a target is due, and whether it is down; zero if there is no such target.
func (b *Board) Next(k Key) (after time.Duration, down bool) {
	x := b.targets[k]
	if x == nil {
		return 0, false
	}
	return x.pace.Next(&x.State), x.Phase.IsDown()
}

// Record takes the result of one probe and returns what follows from it. A result of a target that is no longer
// there only tells that the checker can see.
func (b *Board) Record(k Key, r Result) []Event {
	x := b.targets[k]
	if x == nil {
		return b.sight.look(r)
	}
	b.reach(x, &r)
	events := b.sight.look(r)
	was := x.summary() // a copy has 300 bytes, and most results change nothing
	x.State = Step(x.State, r, x.pace)
	b.see(k, x)
	if r.Void {
		return events
	}
	before, holding := len(events), b.mass.holding()
	note := func(kind Kind) { events = append(events, Event{Kind: kind, At: r.At, Key: k}) }
	switch {
	case !was.phase.IsUp() && x.Phase.IsUp():
		x.Held, x.fell = false, time.Time{}
		b.recount(x)
		note(WentUp)
	case !was.phase.IsDown() && x.Phase.IsDown():
		note(WentDown)
	case was.percent != x.Percent || was.ask != x.Ask:
		note(Reshared)
	}
	switch {
	case !was.flapping && x.Flapping():
		note(StartsToFlap)
	case was.flapping && !x.Flapping():
		note(IsCalm)
	}
	run := was.run + 1
	if was.phase == Unknown {
		run = 0
	}
	for i := range events[before:] {
		events[before+i].Verdict, events[before+i].Run = x.Verdict, run
	}
	// Without a good result it may have been down for long: a panic gives connections to what is down. What could not be
	// sent was held for as long as a mass failure.
	switch {
	case !was.phase.IsUp() || !x.Phase.IsDown():
	case !x.proven || r.Unsent:
		b.recount(x)
	default:
		more := b.fell(k, x, r.At)
		if holding && x.Held {
			events = events[:before] // it never counted as down
		}
		events = append(events, more...)
	}
	return events
}

// summary is what Record compares with the state after a result.
type summary struct {
	phase    Phase
	run      int
	percent  uint16
	ask      Ask
	flapping bool
}

func (s *State) summary() summary { return summary{s.Phase, s.Run, s.Percent, s.Ask, s.Flapping()} }

// Tick tells the time. The end of a mass failure waits while the checker is blind, because nothing new is known. With
// Believe it waits for nothing: the targets are as if Believe had been set all the time.
func (b *Board) Tick(now time.Time) []Event {
	if !b.mass.holding() || !b.Believe && (b.sight.void || now.Before(b.mass.until)) {
		return nil
	}
	b.release()
	events := []Event{{Kind: MassOver, At: now}}
	for k, x := range b.targets {
		if x.Held {
			x.Held = false
			events = append(events, Event{Kind: IsReleased, At: now, Key: k, Verdict: x.Verdict})
		}
	}
	sources.SortFunc(events[1:], func(x, y Event) int { return x.Key.compare(y.Key) })
	return events
}

// Apply brings verdicts up to date with events, and returns the targets whose verdicts changed.
func (v *Verdicts) Apply(events []Event) (changed []Key) {
	for _, e := range events {
		switch {
		case e.Kind == WentBlind:
			v.Blind = true
		case e.Kind == SeesAgain:
			v.Blind = false
		case e.Kind.OfTarget():
			if v.Of == nil {
				v.Of = map[Key]Verdict{}
			}
			if v.Of[e.Key] = e.Verdict; e.Kind == IsGone {
				delete(v.Of, e.Key)
			}
			changed = append(changed, e.Key)
		}
	}
	return changed
}
