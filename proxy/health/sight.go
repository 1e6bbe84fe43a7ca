package health

import (
	"math"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// All results must be void for blindAfter, and there must be blindLeast of them, for the checker to be blind:
// of all targets together, or for a target alone.
const (
	blindAfter = 3 * time.Second
	blindLeast = 3
)

// A probe that this node could not send, for want of a route, tells nothing of the endpoint, and counts as
// nothing: links come up, and routing daemons start. It counts as bad after all if that does not end:
const (
	// after unsentFor, if another endpoint of its service answered meanwhile. Then that one can serve instead.
	unsentFor = 5 * time.Second
	// after unsentMost in any case, as long as a mass failure is held. Other nodes may have a route.
	unsentMost = massHold
)

// reach decides whether a result counts that tells of this node's routes.
func (b *Board) reach(x *tracked, r *Result) {
	switch {
	case !r.Unsent:
		x.unsent = time.Time{}
		if r.Good {
			if b.reached == nil {
				b.reached = map[int32]time.Time{}
			}
			for _, s := range x.services {
				b.reached[s.index] = r.At
			}
		}
		return
	case x.unsent.IsZero():
		x.unsent = r.At
	}
	others := slices.ContainsFunc(x.services, func(s usedBy) bool { return b.reached[s.index].After(x.unsent) })
	since := r.At.Sub(x.unsent)
	r.Void = since < unsentMost && !(since >= unsentFor && x.proven && others)
}

// Dark are the checks of one type whose last probes told nothing of some targets, all for one reason.
type Dark struct {
	Type     sources.CheckType
	Reason   string
	First    Key // of the targets: the one with the least address
	Targets  int
	Services int // that use any of them
	// Last is when any of them last had a result; zero if one never had. Since is when the first void one came.
	Last, Since time.Time
}

// Dark lists them, in any order. A caller has a lock that probes need, so that it sorts nothing.
func (b *Board) Dark(now time.Time) []Dark {
	type cause struct {
		check  sources.CheckType
		reason string
	}
	type use struct{ cause, service int32 }
	at, users := map[cause]int{}, map[use]struct{}{}
	var list []Dark
	for k := range b.dark {
		x := b.targets[k]
		if !x.Dark(now) {
			continue
		}
		c := cause{k.Probe.Value().Type, x.Voided}
		i, found := at[c]
		if !found {
			i = len(list)
			at[c] = i
			list = append(list, Dark{Type: c.check, Reason: c.reason, First: k, Last: x.Last.At, Since: x.VoidSince})
		}
		d := &list[i]
		d.Targets++
		for _, s := range x.services {
			u := use{int32(i), s.index}
			if _, counted := users[u]; !counted {
				users[u] = struct{}{}
				d.Services++
			}
		}
		if b.earlier(k, d.First) {
			d.First = k
		}
		if x.Last.At.Before(d.Last) {
			d.Last = x.Last.At
		}
		if x.VoidSince.Before(d.Since) {
			d.Since = x.VoidSince
		}
	}
	return list
}

// earlier reports whether a target comes before another one: by address, and then by the first service that uses it.
func (b *Board) earlier(k, than Key) bool {
	if c := k.Addr.Compare(than.Addr); c != 0 {
		return c < 0
	}
	return b.firstUser(k) < b.firstUser(than)
}

// firstUser returns the least index of the services that use a target.
func (b *Board) firstUser(k Key) int32 {
	least := int32(math.MaxInt32)
	for _, s := range b.targets[k].services {
		least = min(least, s.index)
	}
	return least
}

// see notes whether a target may be dark.
func (b *Board) see(k Key, x *tracked) {
	switch {
	case x.VoidRun >= blindLeast:
		if b.dark == nil {
			b.dark = map[Key]struct{}{}
		}
		b.dark[k] = struct{}{}
	case x.VoidRun == 0 && len(b.dark) > 0:
		delete(b.dark, k)
	}
}

// sight knows whether the checker can see at all.
type sight struct {
	voids int       // in a row, over all targets
	since time.Time // of the first of them
	void  bool      // blind
	why   string    // it became blind
}

// look takes any target's result. The first one that is not void ends the blindness that void ones made.
func (s *sight) look(r Result) []Event {
	was := s.void
	switch {
	case !r.Void:
		s.voids, s.void = 0, false
	case s.voids == 0:
		s.voids, s.since = 1, r.At
	default:
		s.voids++
		s.void = s.void || s.voids >= blindLeast && r.At.Sub(s.since) >= blindAfter
	}
	return s.turned(was, r.At, r.Reason)
}

// rest ends the blindness, when no target is left to give results.
func (s *sight) rest(now time.Time) []Event {
	was := s.void
	s.voids, s.void = 0, false
	return s.turned(was, now, "")
}

// turned returns the event if the blindness began or ended.
func (s *sight) turned(was bool, now time.Time, why string) []Event {
	switch is := s.void; {
	case is && !was:
		s.why = why
		return []Event{{Kind: WentBlind, At: now, Reason: why}}
	case !is && was:
		return []Event{{Kind: SeesAgain, At: now}}
	}
	return nil
}

// Blind returns why no probe works, by our own fault; "" if probes do.
func (b *Board) Blind() string {
	if !b.sight.void {
		return ""
	}
	return b.sight.why
}
