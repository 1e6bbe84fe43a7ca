package sources

import "weak"

// since is what Compare found between an earlier table and this one. The source, the merge and the health overlay all
// ask for it, and each walk over 50,000 services takes 1.5 ms.
type since struct {
	services Services                // of this table
	before   weak.Pointer[[]Service] // the first page of the earlier one, which is not kept in memory
	delta    Delta
}

// A table remembers a Delta of at most as many changes, or of an eighth of its services. More would take memory.
const fewChanges = 8

// After returns the table with the Delta from an earlier one, as Compare found it. Compare returns it from then on. The
// table remembers it if only the endpoints of a few services changed, and until Services is another list.
func (t Table) After(before Table, d Delta) Table {
	t.since = nil
	if before.Services.Len() > 0 && len(d.Changes) <= max(fewChanges, t.Services.Len()/8) && d.OnlyEndpoints() {
		t.since = &since{services: t.Services, before: before.Services.weak(), delta: d}
	}
	return t
}

// knownSince returns what After was told of these two tables. If ok, both have the same services, which differ in
// endpoints alone.
func (t Table) knownSince(before Table) (d Delta, ok bool) {
	s := t.since
	if s == nil || !s.services.Same(t.Services) || before.Services.Len() != t.Services.Len() || before.Services.weak() != s.before {
		return Delta{}, false
	}
	return s.delta, true
}
