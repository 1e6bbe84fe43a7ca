package verify

import (
	"cmp"
	"iter"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// A Shard is a stretch of what is in the kernel, in this order: the entries of sets,
// set by set; the virtual servers; the VIPs, with the node's links and addresses;
// the real servers, by virtual server. Sysctls, timeouts, chains, firewalls and what
// sets there are, are few, and belong to every part; the zero Shard has no more.
//
// A stretch ends at a set or a virtual server, not at a place in a list, so that
// parts which follow one another hold everything whatever comes and goes.
type Shard struct{ from, to place }

// Everything is the Shard that has all.
var Everything = Shard{to: place{piece: theEnd}}

// place is a place between two objects, before those it names.
type place struct {
	piece   piece
	set     string            // of pieceEntries
	virtual kernel.VirtualKey // of pieceReals
}

type piece uint8

const (
	pieceEntries piece = iota
	pieceVirtuals
	pieceVIPs
	pieceReals
	theEnd
)

func (p place) compare(o place) int {
	if p.piece != o.piece {
		return cmp.Compare(p.piece, o.piece)
	}
	if p.set != o.set {
		return strings.Compare(p.set, o.set)
	}
	return kernel.CompareKeys(&p.virtual, &o.virtual)
}

func (p Shard) has(at place) bool { return p.from.compare(at) <= 0 && at.compare(p.to) < 0 }

// HasEntries says whether a set's entries are in the part.
func (p Shard) HasEntries(set string) bool { return p.has(place{piece: pieceEntries, set: set}) }

// HasVirtuals says whether the virtual servers are in the part, all of them.
func (p Shard) HasVirtuals() bool { return p.has(place{piece: pieceVirtuals}) }

// HasVIPs says whether addresses, routes, neighbours, links and the node are.
func (p Shard) HasVIPs() bool { return p.has(place{piece: pieceVIPs}) }

// HasReals says whether a virtual server's real servers are in the part.
func (p Shard) HasReals(v kernel.VirtualKey) bool { return p.has(place{piece: pieceReals, virtual: v}) }

// What reading costs, in thousands of instructions of kernel and reader together,
// by their count on Linux 6.1. An IPv6 virtual server's real servers are a dump of
// their own, in whose messages most is counters.
const (
	costEntry    = 1
	costVirtual  = 7
	costVIP      = 2
	costDests4   = 3
	costDests6   = 35
	costReal6    = 6
	costsPerPart = 30_000 // some 10 ms of one processor
)

// Parts cuts a state into parts of about one cost each, that together have
// everything, at most most of them. What cannot be cut, as one set, is in one part
// however large.
func Shards(s *kernel.State, most int) []Shard {
	for limit := costsPerPart; ; limit += limit / 2 {
		if parts := cut(s, limit); len(parts) <= max(1, most) {
			return parts
		}
	}
}

// cut puts pieces together in parts that cost no more than a limit, or are one piece.
func cut(s *kernel.State, limit int) []Shard {
	parts := []Shard{Everything}
	sum := 0 // of the last part
	for at, cost := range pieces(s) {
		if sum > 0 && sum+cost > limit {
			parts[len(parts)-1].to = at
			parts = append(parts, Shard{from: at, to: Everything.to})
			sum = 0
		}
		sum += cost
	}
	return parts
}

// pieces gives what a state can be cut into, in order, and what it costs to read.
func pieces(s *kernel.State) iter.Seq2[place, int] {
	return func(yield func(place, int) bool) {
		entries := s.Entries
		for _, set := range s.Sets {
			if !yield(place{piece: pieceEntries, set: set.Name}, costEntry*len(kernel.NextEntries(&entries, set.Name))) {
				return
			}
		}
		if !yield(place{piece: pieceVirtuals}, costVirtual*len(s.Virtuals)) ||
			!yield(place{piece: pieceVIPs}, costVIP*(len(s.Addrs)+len(s.Routes)+len(s.Neighbors))) {
			return
		}
		reals := s.Reals
		for _, v := range s.Virtuals {
			n := len(kernel.NextReals(&reals, v.Key))
			cost := costDests4 + n/2
			if v.Key.Family() == kernel.IPv6 {
				cost = costDests6 + costReal6*n
			}
			if !yield(place{piece: pieceReals, virtual: v.Key}, cost) {
				return
			}
		}
	}
}
