package sources

import "weak"

// since is what Compare found between an earlier table and this one. The source, the merge and the health overlay all
// ask for it, and each walk over 50,000 services takes 1.5 ms.
type since struct {
	services []Service             // of this table
	before   weak.Pointer[Service] // the first service of the earlier one, which is not kept in memory
	delta    Delta
}

// A table remembers a Delta of at most as many changes, or of an eighth of its services. More would take memory.
const fewChanges = 8

// After returns the table with the Delta from an earlier one, as Compare found it. Compare returns it from then on. The
// table remembers it if only the endpoints of a few services changed, and until Services is another slice.
func (t Table) After(before Table, d Delta) Table {
	t.since = nil
	if len(before.Services) > 0 && len(d.Changes) <= max(fewChanges, len(t.Services)/8) && d.OnlyEndpoints() {
		t.since = &since{services: t.Services, before: weak.Make(&before.Services[0]), delta: d}
	}
	return t
}

// knownSince returns what After was told of these two tables. If ok, both have the same services, which differ in
// endpoints alone.
func (t Table) knownSince(before Table) (d Delta, ok bool) {
	s := t.since
	if s == nil || !identical(s.services, t.Services) || len(before.Services) != len(t.Services) || weak.Make(&before.Services[0]) != s.before {
		return Delta{}, false
	}
	return s.delta, true
}
