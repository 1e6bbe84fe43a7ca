package ipvs

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// loopEntries returns the entries of KUBE-LOOP-BACK for all hairpins, sorted. An
// entry that several service ports need is there several times.
func loopEntries(f *frontend.Frontends, c mode.Config) []kernel.Entry {
	n := 0
	for i := range f.Table.Services.Len() {
		n += len(f.Hairpins(i))
	}
	loops := make([]kernel.Entry, 0, n)
	names := loopSets(c)
	for i := range f.Table.Services.Len() {
		loops = appendLoops(loops, f, i, &names)
	}
	sortEntries(loops)
	return loops
}

// loopSets returns the full names of the sets by family.
func loopSets(c mode.Config) (names [2]string) {
	return [2]string{c.Names.Set(kernel.IPv4, kernel.LoopBack), c.Names.Set(kernel.IPv6, kernel.LoopBack)}
}

// appendLoops appends the entries for the hairpins of the service with index i.
func appendLoops(loops []kernel.Entry, f *frontend.Frontends, i int, names *[2]string) []kernel.Entry {
	for _, h := range f.Hairpins(i) {
		at := f.Addr(i, h.Backend)
		a := at.Addr()
		name := names[0]
		if a.Is6() {
			name = names[1]
		}
		loops = append(loops, kernel.Entry{Set: name, Addr: a, Proto: h.Proto, Port: at.Port(), Second: netip.PrefixFrom(a, a.BitLen())})
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
