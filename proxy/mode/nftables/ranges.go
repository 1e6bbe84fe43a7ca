package nftables

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// allowed returns the source ranges of one family as networks that do not overlap, which a set of nftables needs. They
// contain self if that may, and leave it out otherwise: the node's own packets to a bound VIP have it as their source.
func allowed(ranges []netip.Prefix, f kernel.Family, self netip.Addr, may bool) []netip.Prefix {
	own := netip.PrefixFrom(self, self.BitLen())
	var all []netip.Prefix
	if may {
		all = append(all, own)
	}
	for _, r := range ranges {
		switch {
		case kernel.FamilyOf(r.Addr()) != f:
		case !may && r.Contains(self):
			all = append(all, without(r.Masked(), self)...)
		default:
			all = append(all, r.Masked())
		}
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { // a network before those in it
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	kept := all[:0]
	for _, r := range all {
		if n := len(kept); n == 0 || !kept[n-1].Contains(r.Addr()) {
			kept = append(kept, r)
		}
	}
	return kept
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
