// Package answers judges from tracked connections which endpoints do not answer their clients.
//
// It sees TCP alone: nobody must answer a datagram. An endpoint to which packets are forwarded unchanged, or in a
// tunnel, sends its replies past this node, so it is not judged.
package answers

import (
	"net/netip"
	"time"
)

// A clean judgement needs leastWaiting connections that wait, since one client may be slow, and none that was answered
// for leastTime: a busy endpoint answers some.
const (
	leastWaiting = 3
	leastTime    = 15 * time.Second
)

// Fresh is how long a client waits after it asked. One that asked earlier may have given up, and the endpoint may
// answer by now. A client repeats its SYN after 1, 3, 7 and 15 seconds.
const Fresh = 15 * time.Second

// Most bounds the connections of an endpoint that is judged: a flood fills any table. A look need not have more than
// one more.
const Most = 10_000

// Connection is one of a client with an endpoint. Two with equal values are the same one.
type Connection struct{ Client, To netip.AddrPort }

// Seen is what one look at the tracked connections tells of an endpoint.
type Seen struct {
	Waiting  []Connection // nothing came back since the first packet, and the client asked in the last Fresh
	Answered []Connection // something came back; nil if the look was for those that wait
}

// Look is one look: Seen by endpoint. All says that it was also for connections that were answered.
type Look struct {
	At   time.Time
	All  bool
	Seen map[netip.AddrPort]Seen
}

// Memory is what Judge remembers from one look to the next, by endpoint. It has those that may be silent.
type Memory map[netip.AddrPort]suspect

type suspect struct {
	since    time.Time
	answered map[Connection]bool // as of the first look for all; nil before
	silent   bool
}

// Silent is an endpoint that does not answer.
type Silent struct {
	Endpoint netip.AddrPort
	Waiting  int
}

// Judge returns the endpoints that do not answer: leastWaiting connections or more wait, no connection was answered for
// leastTime that was not answered before, and those that wait are not of strangers alone. It takes three looks, the
// last two for all connections. Once silent, an endpoint is until it answers or nobody waits.
func Judge(before Memory, l Look) (silent []Silent, now Memory) {
	now = Memory{}
	for at, seen := range l.Seen {
		s, known := before[at]
		n := len(seen.Waiting)
		if n == 0 || n < leastWaiting && !s.silent || max(n, len(seen.Answered)) > Most {
			continue
		}
		switch {
		case !known:
			s = suspect{since: l.At}
		case !l.All:
		case s.answered == nil || answersNow(seen.Answered, s.answered):
			s = suspect{since: l.At, answered: setOf(seen.Answered)}
		case !s.silent:
			s.silent = l.At.Sub(s.since) >= leastTime && !seen.strangers()
		}
		if now[at] = s; s.silent {
			silent = append(silent, Silent{at, n})
		}
	}
	return silent, now
}

// strangers reports whether the clients that wait may be ones that were never to be answered: others have connections.
// A firewall of the endpoint may refuse one client, or all but some, and a SYN may come from a false address.
func (s Seen) strangers() bool {
	waits := map[netip.Addr]bool{}
	for _, c := range s.Waiting {
		waits[c.Client.Addr()] = true
	}
	both, others := map[netip.Addr]bool{}, false
	for _, c := range s.Answered {
		if a := c.Client.Addr(); waits[a] {
			both[a] = true
		} else {
			others = true
		}
	}
	return others && len(both) < 2
}

// answersNow reports whether a connection was answered that was not before.
func answersNow(list []Connection, before map[Connection]bool) bool {
	for _, c := range list {
		if !before[c] {
			return true
		}
	}
	return false
}

func setOf(list []Connection) map[Connection]bool {
	set := make(map[Connection]bool, len(list))
	for _, c := range list {
		set[c] = true
	}
	return set
}
