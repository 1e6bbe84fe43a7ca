package mode

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Ranges returns the source ranges of one family, sorted, without those that another one contains: a set of nftables
// takes no networks that overlap.
func Ranges(all []netip.Prefix, f kernel.Family) (ranges []netip.Prefix) {
	for _, r := range all {
		if kernel.FamilyOf(r.Addr()) == f {
			ranges = append(ranges, r.Masked())
		}
	}
	slices.SortFunc(ranges, func(a, b netip.Prefix) int { // a network before those in it
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	kept := ranges[:0]
	for _, r := range ranges {
		if n := len(kept); n == 0 || !kept[n-1].Contains(r.Addr()) {
			kept = append(kept, r)
		}
	}
	return kept
}
