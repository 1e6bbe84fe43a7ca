package sources

import "weak"

// since is what Compare found between an earlier table and this one. The source, the merge and the health overlay all
// ask for it, and each walk over 50,000 services takes 1.5 ms.
type since struct {
	services Services                // of this table
	before   weak.Pointer[[]Service] // the first page of the earlier one, which is not kept in memory
	n        int                     // its services
	delta    Delta
}

// A table remembers a Delta of at most as many changes, or of an eighth of its services. More would take memory.
const fewChanges = 8

// After returns the table with the Delta from an earlier one, as Compare found it. Compare returns it from then on. The
// table remembers it if only a few services changed, and until Services is another list.
func (t Table) After(before Table, d Delta) Table {
	t.since = nil
	if n := before.Services.Len(); n > 0 && d.few(t.Services.Len()) {
		t.since = &since{services: t.Services, before: before.Services.weak(), n: n, delta: d}
	}
	return t
}

// knownSince returns what After was told of these two tables.
func (t Table) knownSince(before Table) (d Delta, ok bool) {
	s := t.since
	if s == nil || !s.services.Same(t.Services) || before.Services.Len() != s.n || before.Services.weak() != s.before {
		return Delta{}, false
	}
	return s.delta, true
}
