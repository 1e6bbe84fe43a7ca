package nftables

import (
	"hash/fnv"
	"slices"

	"github.com/svcproxy/svcproxy/proxy/mode"
)

// maxSlots is how many slots unequal weights may take, if there are not more endpoints than a quarter of it.
const maxSlots = 256

// localSlots is the number of the first slot of endpoints on this node. Half of the numbers come before it.
const localSlots = 1 << 15

// drawn returns the slots of a random choice, as indexes of endpoints: as many of each as its weight says.
func drawn(list []mode.Endpoint) []int32 {
	counts := counts(list)
	var slots []int32
	for i, n := range counts {
		for range n {
			slots = append(slots, int32(i))
		}
	}
	return slots[:min(len(slots), localSlots)]
}

// counts returns the number of slots of each endpoint: the weights, divided by their greatest common divisor. Where
// these are too many, they are scaled down, with at least 1 for each.
func counts(list []mode.Endpoint) []uint64 {
	if len(list) == 0 {
		return nil
	}
	divisor, sum := uint64(0), uint64(0)
	for _, e := range list {
		divisor = gcd(divisor, uint64(e.Weight))
		sum += uint64(e.Weight)
	}
	limit := uint64(min(max(maxSlots, 4*len(list)), localSlots))
	n := make([]uint64, len(list))
	if sum/divisor <= limit {
		for i, e := range list {
			n[i] = uint64(e.Weight) / divisor
		}
		return n
	}
	// The largest remainders get the slots that rounding down leaves.
	left, rest := limit, make([]uint64, len(list))
	order := make([]int, len(list))
	for i, e := range list {
		share := uint64(e.Weight) * limit
		n[i], rest[i], order[i] = max(share/sum, 1), share%sum, i
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

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// tables are the sizes of tables for hashes: primes, so that every skip of hashed visits all slots. There are few,
// since each in use is a chain.
var tables = [...]int{31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749}

// hashed returns the slots of a choice by the client's address, as indexes of endpoints: Maglev's table, which is equal
// on all nodes with equal endpoints. If an endpoint goes, few clients of the others move. It has eight times the slots
// that a random choice would have.
func hashed(list []mode.Endpoint) []int32 {
	if len(list) == 0 {
		return nil
	}
	shares := counts(list)
	sum, most := uint64(0), uint64(0)
	for _, n := range shares {
		sum, most = sum+n, max(most, n)
	}
	size := tables[len(tables)-1]
	for _, n := range tables {
		if uint64(n) >= 8*sum {
			size = n
			break
		}
	}
	slots := make([]int32, size)
	for i := range slots {
		slots[i] = -1
	}
	type row struct{ at, skip int }
	rows := make([]row, len(list))
	for i := range list {
		h := fnv.New64a()
		h.Write([]byte(list[i].At.String()))
		sum := mixed(h.Sum64())
		rows[i] = row{int(sum % uint64(size)), int(mixed(sum)%uint64(size-1)) + 1}
	}
	turns := make([]uint64, len(list))
	for filled := 0; filled < size; {
		for i := range rows {
			if turns[i] += shares[i]; turns[i] < most {
				continue
			}
			turns[i] -= most
			r := &rows[i]
			for slots[r.at] >= 0 {
				r.at = (r.at + r.skip) % size
			}
			slots[r.at] = int32(i)
			if filled++; filled == size {
				break
			}
		}
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
