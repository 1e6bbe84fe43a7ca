package relay

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// ErrScheduler is the error for a scheduler that the relay does not have.
var ErrScheduler = errors.New("unknown scheduler")

// Scheduler reports whether there is a scheduler of that name. If not, the error is a
// *kernel.MissingError.
func (r *Relay) Scheduler(name string) error {
	if err := checkScheduler(name); err != nil {
		return &kernel.MissingError{What: err.Error(), Hint: "choose another scheduler, or mode ipvs"}
	}
	return nil
}

// schedule is the memory of a virtual server's scheduler.
type schedule struct {
	next  int  // index of the endpoint whose turn it is
	stale bool // endpoints or weights have changed since the last choice
}

// inserted and removed keep the turn with its endpoint.
func (s *schedule) inserted(i int) {
	if i < s.next {
		s.next++
	}
	s.stale = true
}

func (s *schedule) removed(i int) {
	if i < s.next {
		s.next--
	}
	s.stale = true
}

// choose returns one of the usable endpoints, or nil. A second choice for the same connection takes
// no other connection's turn: with two endpoints of which one is dead, rr would send the first try
// of every connection there.
func (s *schedule) choose(v *kernel.Virtual, all []*endpoint, client netip.AddrPort, second bool,
	usable func(*endpoint) bool) *endpoint {
	switch v.Scheduler {
	case "rr":
		return s.turn(all, second, usable)
	case "wrr":
		return s.weighted(all, second, usable)
	case "lc":
		return s.turn(all, second, least(all, usable, func(*endpoint) int64 { return 1 }))
	case "wlc":
		return s.weighted(all, second, least(all, usable, func(e *endpoint) int64 { return int64(e.weight) }))
	}
	port := v.Flags&kernel.FlagSched2 != 0 // sh-port
	return byClient(all, client, port, usable)
}

// turn is rr: the first usable endpoint from the one whose turn it is.
func (s *schedule) turn(all []*endpoint, second bool, usable func(*endpoint) bool) *endpoint {
	for n := range all {
		i := (s.next + n) % len(all)
		if usable(all[i]) {
			if !second {
				s.next = i + 1
			}
			return all[i]
		}
	}
	return nil
}

// weighted is wrr, smooth: in every round of as many choices as the sum of weights, each endpoint
// gets as many as its weight, evenly spread. A round begins again after a change, because an endpoint
// would otherwise pay back what it got under its former weight.
func (s *schedule) weighted(all []*endpoint, second bool, usable func(*endpoint) bool) *endpoint {
	if s.stale {
		for _, e := range all {
			e.current = 0
		}
		s.stale = false
	}
	var best *endpoint
	var sum, high int64
	at := 0
	for n := range all {
		i := (s.next + n) % len(all)
		e := all[i]
		if !usable(e) {
			continue
		}
		current := e.current + int64(e.weight)
		if !second {
			e.current = current
		}
		sum += int64(e.weight)
		if best == nil || current > high {
			best, high, at = e, current, i
		}
	}
	if best != nil && !second {
		best.current -= sum
		s.next = at + 1
	}
	return best
}

// load is an endpoint's, as IPVS counts it: an active connection is as much as 256 inactive ones.
func (e *endpoint) load() int64 { return e.active.Load()<<8 + e.inactive.Load() }

// least returns which of the usable endpoints have the least load for their weight. There are
// several while there are few connections. IPVS takes the first then; the caller gives all of
// them their share.
func least(all []*endpoint, usable func(*endpoint) bool, weight func(*endpoint) int64) func(*endpoint) bool {
	var best *endpoint
	var low int64 // of best
	for _, e := range all {
		if !usable(e) {
			continue
		}
		if load := e.load(); best == nil || load*weight(best) < low*weight(e) {
			best, low = e, load
		}
	}
	return func(e *endpoint) bool { return usable(e) && (e == best || e.load()*weight(best) <= low*weight(e)) }
}

// byClient is sh: the same client gets the same endpoint. Every endpoint has a score for the
// client, and the best one wins (rendezvous hashing). So an endpoint that is added or drains moves
// its own share of clients and no others, where IPVS moves nearly all. The scores depend on
// addresses only: a client stays over a restart, and two nodes choose alike.
func byClient(all []*endpoint, client netip.AddrPort, port bool, usable func(*endpoint) bool) *endpoint {
	who := hashAddr(client.Addr())
	if port {
		who = hashAddrPort(client)
	}
	var best *endpoint
	low := math.Inf(1)
	for _, e := range all {
		if !usable(e) {
			continue
		}
		// An exponential variable with rate weight: the least of several falls to each in
		// proportion to its rate.
		u := (float64(mix(who^e.hash)>>11) + 0.5) / (1 << 53)
		if score := -math.Log(u) / float64(e.weight); score < low {
			best, low = e, score
		}
	}
	return best
}

func hashAddr(a netip.Addr) uint64 {
	b := a.As16()
	return mix(mix(binary.BigEndian.Uint64(b[:8])) ^ binary.BigEndian.Uint64(b[8:]))
}

func hashAddrPort(a netip.AddrPort) uint64 { return mix(hashAddr(a.Addr()) + uint64(a.Port())) }

// mix is the last step of splitmix64: each bit of the result depends on each bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
