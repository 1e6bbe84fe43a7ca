package nftables

import (
	"hash/fnv"
	"math"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// localSlots is the number of the first slot of endpoints on this node. Half of the numbers come before it.
const localSlots = sources.MostSlots

// drawn returns the slots of a random choice, as indexes of endpoints: as many of each as its weight says. The service
// has so many fronts.
func drawn(list []mode.Endpoint, fronts int) []int32 {
	counts := counts(list, sources.WeightSlots(len(list), fronts))
	var slots []int32
	for i, n := range counts {
		for range n {
			slots = append(slots, int32(i))
		}
	}
	return slots[:min(len(slots), localSlots)]
}

// counts returns the number of slots of each endpoint: the weights, divided by their greatest common divisor. Where
// these are more than a limit, they are scaled down, with at least 1 for each.
func counts(list []mode.Endpoint, most int) []uint64 {
	if len(list) == 0 {
		return nil
	}
	sum := uint64(0)
	for _, e := range list {
		sum += uint64(e.Weight)
	}
	limit, parts := uint64(most), uint64(sources.Parts(list, func(e *mode.Endpoint) uint32 { return e.Weight }))
	n := make([]uint64, len(list))
	if parts <= limit {
		for i, e := range list {
			n[i] = uint64(e.Weight) * parts / sum
		}
		return n
	}
	// The largest remainders get the slots that rounding down leaves.
	left, rest := limit, make([]uint64, len(list))
	order := make([]int, len(list))
	for i, e := range list {
		share := uint64(e.Weight) * limit
		if n[i], rest[i], order[i] = share/sum, share%sum, i; n[i] == 0 {
			n[i], rest[i] = 1, 0
		}
		left -= min(n[i], left)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rest[a] > rest[b]:
			return -1
		case rest[a] < rest[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:min(left, uint64(len(order)))] {
		n[i]++
	}
	return n
}

// hashed returns the slots of a choice by the client's address, as indexes of endpoints. Each slot belongs to the
// endpoint with the highest score there (rendezvous hashing), so nodes with equal endpoints agree, and if an endpoint
// goes, only its own clients move. Of Maglev's table with as many slots, a third or more of the other clients do. The
// service has so many fronts.
func hashed(list []mode.Endpoint, fronts int) []int32 {
	if len(list) == 0 {
		return nil
	}
	names := make([]uint64, len(list))
	equal := true
	for i, e := range list {
		h := fnv.New64a()
		h.Write([]byte(e.At.String()))
		names[i], equal = mixed(h.Sum64()), equal && e.Weight == list[0].Weight
	}
	slots := make([]int32, sources.HashSlots(len(list), fronts))
	for slot := range slots {
		salt := mixed(uint64(slot))
		best, most, score := 0, uint64(0), 0.0
		for i, name := range names {
			h := mixed(name ^ salt)
			if equal { // the order of scores is that of hashes
				if h > most {
					best, most = i, h
				}
				continue
			}
			part := (float64(h>>11) + 0.5) / (1 << 53) // between 0 and 1
			if s := float64(list[i].Weight) / -math.Log(part); s > score {
				best, score = i, s
			}
		}
		slots[slot] = int32(best)
	}
	return slots
}

// mixed spreads the bits of a hash (splitmix64): those of similar addresses are alike.
func mixed(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
