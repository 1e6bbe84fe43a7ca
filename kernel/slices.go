package kernel

import (
	"slices"
	"sort"
	"strings"
)

// EntriesOf is the part of the sorted entries that belongs to a set.
func (s *State) EntriesOf(set string) []Entry {
	start, end := spanOf(s.Entries, set)
	return s.Entries[start:end]
}

// spanOf is where in sorted entries those of a set are.
func spanOf(entries []Entry, set string) (start, end int) {
	start = sort.Search(len(entries), func(i int) bool { return entries[i].Set >= set })
	end = start + sort.Search(len(entries)-start, func(i int) bool { return entries[start+i].Set > set })
	return start, end
}

// HasSet says whether a set of this name exists.
func (s *State) HasSet(name string) bool {
	_, ok := slices.BinarySearchFunc(s.Sets, name, func(t Set, name string) int { return strings.Compare(t.Name, name) })
	return ok
}

// NextEntries cuts the entries of a set off the front of sorted entries; those of
// sets before it are skipped.
func NextEntries(entries *[]Entry, set string) []Entry {
	e := *entries
	start, end := spanOf(e, set)
	*entries = e[end:]
	return e[start:end]
}

// NextReals cuts the real servers of a virtual server off the front of sorted ones;
// those of virtual servers before it are skipped.
func NextReals(reals *[]Real, v VirtualKey) []Real {
	r := *reals
	start := 0
	for start < len(r) && !r[start].Key.Virtual.Same(&v) && r[start].Key.Virtual.Compare(v) < 0 {
		start++
	}
	end := start
	for end < len(r) && r[end].Key.Virtual.Same(&v) {
		end++
	}
	*reals = r[end:]
	return r[start:end]
}

// Walk goes through two sorted slices side by side and reports what is only in
// one of them, or in both with a difference. The missing side is nil.
func Walk[T any](want, have []T, same func(a, b *T) bool, compare func(a, b T) int, differs func(w, h *T)) {
	i, j := 0, 0
	for i < len(want) && j < len(have) {
		if same(&want[i], &have[j]) {
			i++
			j++
			continue
		}
		switch c := compare(want[i], have[j]); {
		case c < 0:
			differs(&want[i], nil)
			i++
		case c > 0:
			differs(nil, &have[j])
			j++
		default:
			differs(&want[i], &have[j])
			i++
			j++
		}
	}
	for ; i < len(want); i++ {
		differs(&want[i], nil)
	}
	for ; j < len(have); j++ {
		differs(nil, &have[j])
	}
}
