package plan

import (
	"cmp"
	"iter"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Shard is a stretch of the kernel, whose order is: the entries of sets, set by set;
// the virtual servers; the VIPs, with the node's links and addresses; the real servers,
// by virtual server. Sysctls, timeouts, chains, firewalls and the headers of sets are
// few and belong to every shard; the zero Shard has only these.
//
// A shard ends at the name of a set or the key of a virtual server, not at an index.
// So adjacent shards always cover everything, whatever is added or removed.
type Shard struct{ from, to place }

// Everything is the Shard that covers all.
var Everything = Shard{to: place{piece: theEnd}}

// place is a place between two objects, in front of those it names.
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

func (s Shard) has(at place) bool { return s.from.compare(at) <= 0 && at.compare(s.to) < 0 }

// HasEntries reports whether a set's entries are in the shard.
func (s Shard) HasEntries(set string) bool { return s.has(place{piece: pieceEntries, set: set}) }

// HasVirtuals reports whether the virtual servers are in the shard, all of them.
func (s Shard) HasVirtuals() bool { return s.has(place{piece: pieceVirtuals}) }

// HasVIPs reports whether addresses, routes, neighbours, links and the node are.
func (s Shard) HasVIPs() bool { return s.has(place{piece: pieceVIPs}) }

// HasReals reports whether a virtual server's real servers are in the shard.
func (s Shard) HasReals(v kernel.VirtualKey) bool { return s.has(place{piece: pieceReals, virtual: v}) }

// What reading costs, in thousands of instructions of kernel and reader together,
// counted on Linux 6.1. The real servers of an IPv6 virtual server are a dump of
// their own, and most of its messages is counters.
const (
	costEntry   = 1
	costVirtual = 7
	costVIP     = 2
	costDests4  = 3
	costDests6  = 35
	costReal6   = 6
	costOfShard = 30_000 // about 10 ms of one processor
)

// Shards cuts a state into shards of similar cost, which together cover everything.
// There are at most most of them. A set cannot be cut: it is in one shard, however
// large.
func Shards(s *kernel.State, most int) []Shard {
	for limit := costOfShard; ; limit += limit / 2 {
		if shards := cut(s, limit); len(shards) <= max(1, most) {
			return shards
		}
	}
}

// cut joins pieces into shards that cost no more than a limit, or are one piece.
func cut(s *kernel.State, limit int) []Shard {
	shards := []Shard{Everything}
	sum := 0 // of the last shard
	for at, cost := range pieces(s) {
		if sum > 0 && sum+cost > limit {
			shards[len(shards)-1].to = at
			shards = append(shards, Shard{from: at, to: Everything.to})
			sum = 0
		}
		sum += cost
	}
	return shards
}

// pieces gives the places where a state can be cut, in order, and what it costs to
// read up to the next.
func pieces(s *kernel.State) iter.Seq2[place, int] {
	return func(yield func(place, int) bool) {
		for _, set := range s.Sets {
			if !yield(place{piece: pieceEntries, set: set.Name}, costEntry*s.Entries.Of(set.Name).Len()) {
				return
			}
		}
		if !yield(place{piece: pieceVirtuals}, costVirtual*len(s.Virtuals)) ||
			!yield(place{piece: pieceVIPs}, costVIP*(len(s.Addrs)+len(s.Routes)+len(s.Neighbors)+len(s.Announcements))) {
			return
		}
		reals := s.Reals.Cursor()
		for _, v := range s.Virtuals {
			n := len(reals.Next(v.Key))
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
