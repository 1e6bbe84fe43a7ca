package sources

import "math"

// MostSlots is how many slots of mode nftables one list of endpoints has at a front, and weightSlots how many unequal
// weights may take, if there are not more endpoints than a quarter of it.
const (
	MostSlots   = 1 << 15
	weightSlots = 256
)

// roomySlots is what the slots of a service come to with which tables are larger than they have to be.
const roomySlots = 1 << 15

// HashSlots returns how many slots a choice by the client's address has at each of a service's fronts: 16 or more for
// each endpoint, whose shares then differ by a quarter at most (standard deviation). There are few such numbers, since
// clients move from one to the other, and the larger ones only where the service has few fronts. All nodes count its
// fronts alike (Shape.Fronts), so they choose alike.
func HashSlots(endpoints, fronts int) int {
	n := MostSlots
	switch {
	case endpoints <= 1:
		return endpoints
	case endpoints <= 8:
		n = 128
	case endpoints <= 32:
		n = 512
	case endpoints <= 256:
		n = 4096
	}
	for n*fronts > roomySlots && n/2 >= 16*endpoints {
		n /= 2
	}
	return n
}

// WeightSlots returns how many slots unequal weights may take at each of a service's fronts.
func WeightSlots(endpoints, fronts int) int {
	return min(max(min(weightSlots, roomySlots/max(fronts, 1)), 4*endpoints), MostSlots)
}

// Parts returns the sum of the weights of endpoints, divided by their greatest common divisor, or their number if that
// is more. With as many slots shares are exact.
func Parts[E any](endpoints []E, weight func(*E) uint32) int {
	divisor, sum := uint64(0), uint64(0)
	for i := range endpoints {
		w := uint64(weight(&endpoints[i]))
		divisor, sum = gcd(divisor, w), sum+w
	}
	return max(int(sum/max(divisor, 1)), len(endpoints))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// hashes are the cases in which mode nftables chooses a service's endpoints by the client's address.
type hashes uint8

const (
	never     hashes = iota
	byDefault        // if the node's default scheduler does
	always
)

func hashesOf(s *Service) hashes {
	switch {
	case s.Affinity == AffinityClientIP, hashesClients(s.Scheduler):
		return always
	case s.Scheduler == "":
		return byDefault
	}
	return never
}

// hashesClients reports whether a scheduler chooses by the client's address, and has flags. (dh chooses by the VIP.)
func hashesClients(scheduler string) bool { return scheduler == "sh" || scheduler == "mh" }

// slots returns the most slots that a service of the shape takes in mode nftables, where the default scheduler hashes
// and where it does not.
func (h Shape) slots() (hashing, other int) {
	sum := func(of func(endpoints, parts int) int) int {
		ip4, ip6 := of(h.Endpoints4, h.parts4), of(h.Endpoints6, h.parts6)
		return h.lists() * (h.VIPs4*h.Ports*ip4 + h.VIPs6*h.Ports*ip6 + h.NodePorts*(ip4+ip6))
	}
	fronts := h.Fronts()
	hashed := sum(func(n, _ int) int { return HashSlots(n, fronts) })
	drawn := sum(func(n, parts int) int {
		if most := WeightSlots(n, fronts); parts > most {
			return min(most+n, MostSlots) // rounding down leaves each endpoint one
		}
		return min(parts, MostSlots)
	})
	switch h.hashes {
	case always:
		return hashed, hashed
	case byDefault:
		return hashed, drawn
	}
	return drawn, drawn
}

// lists is the number of lists of endpoints that a front has: with policy Local also those on the node.
func (h Shape) lists() int {
	if h.local {
		return 2
	}
	return 1
}

// perSlots says what the slots are for.
func (h Shape) perSlots(hashed bool) (factors, hint string) {
	factors = h.fronts() + " x " + Count(h.Endpoints4+h.Endpoints6, "endpoint")
	if h.local {
		factors += ", twice for policy Local,"
	}
	if hashed {
		return factors + " by a hash", `without session affinity and schedulers "sh" and "mh" an endpoint takes one; ` +
			"mode ipvs needs none"
	}
	if h.parts4 > h.Endpoints4 || h.parts6 > h.Endpoints6 {
		return factors + " by weight", "equal weights take one for each endpoint; mode ipvs needs none"
	}
	return factors, "mode ipvs needs none"
}

// noLimit is for what a mode does not have.
const noLimit = math.MaxInt
