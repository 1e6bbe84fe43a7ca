package nftables

import (
	"net/netip"
	"slices"
)

// allowed returns source ranges, as mode.Ranges does. They contain self if that may, and leave it out otherwise: the
// node's own packets to a bound VIP have it as their source.
func allowed(ranges []netip.Prefix, self netip.Addr, may bool) []netip.Prefix {
	at := slices.IndexFunc(ranges, func(r netip.Prefix) bool { return r.Contains(self) })
	switch {
	case may && at < 0:
		return append(slices.Clip(ranges), netip.PrefixFrom(self, self.BitLen()))
	case !may && at >= 0:
		return slices.Concat(ranges[:at], without(ranges[at], self), ranges[at+1:])
	}
	return ranges
}

// without returns the networks that a network without one of its addresses consists of.
func without(n netip.Prefix, a netip.Addr) []netip.Prefix {
	var rest []netip.Prefix
	for bits := n.Bits() + 1; bits <= a.BitLen(); bits++ {
		rest = append(rest, netip.PrefixFrom(flipped(a, bits-1), bits).Masked())
	}
	return rest
}

// flipped returns an address with one bit changed.
func flipped(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8] ^= 0x80 >> (bit % 8)
	other, _ := netip.AddrFromSlice(b)
	return other
}
