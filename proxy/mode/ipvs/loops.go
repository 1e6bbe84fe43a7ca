package ipvs

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// appendLoops appends the entries of a KUBE-LOOP-BACK for the hairpins of the service with index i. An entry
// that several service ports need is there several times.
func appendLoops(loops []kernel.Entry, f *frontend.Frontends, i int, family kernel.Family, set string) []kernel.Entry {
	for _, h := range f.Hairpins(i) {
		at := f.Addr(i, h.Backend)
		if a := at.Addr(); kernel.FamilyOf(a) == family {
			loops = append(loops, kernel.Entry{Set: set, Addr: a, Proto: h.Proto, Port: at.Port(),
				Second: netip.PrefixFrom(a, a.BitLen())})
		}
	}
	return loops
}

func sortEntries(entries []kernel.Entry) {
	if !slices.IsSortedFunc(entries, kernel.Entry.Compare) {
		slices.SortFunc(entries, kernel.Entry.Compare)
	}
}

// repeated returns the sorted entries that are equal to the one before.
func repeated(sorted []kernel.Entry) []kernel.Entry {
	n := 0
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	again := make([]kernel.Entry, 0, n)
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			again = append(again, sorted[i])
		}
	}
	return again
}
