package kernel

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// Entries is a sorted list of the entries of sets. It is a value: nothing changes a list
// that was handed on. Each set's entries are a slice of their own, and lists that follow
// each other share the slices of sets that did not change.
type Entries struct {
	sets [][]Entry // none empty, in the order of the sets' names
}

// EntriesOf returns a list of sorted entries. It keeps the slice.
func EntriesOf(sorted []Entry) Entries {
	var l Entries
	for len(sorted) > 0 {
		n := throughSet(sorted, sorted[0].Set)
		l.sets, sorted = append(l.sets, sorted[:n:n]), sorted[n:]
	}
	return l
}

// throughSet counts the sorted entries up to those of a set, with them.
func throughSet(sorted []Entry, set string) int {
	if len(sorted) > 0 && sorted[len(sorted)-1].Set <= set { // mostly
		return len(sorted)
	}
	return sort.Search(len(sorted), func(i int) bool { return sorted[i].Set > set })
}

// Len counts the entries.
func (l Entries) Len() (n int) {
	for _, set := range l.sets {
		n += len(set)
	}
	return n
}

// Sets returns the entries set by set. Callers must not change them.
func (l Entries) Sets() [][]Entry { return l.sets }

// All gives the entries.
func (l Entries) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, set := range l.sets {
			for _, e := range set {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Slice returns a copy of the entries.
func (l Entries) Slice() []Entry { return slices.Concat(l.sets...) }

// Of returns the entries of a set. Callers must not change them.
func (l Entries) Of(set string) []Entry {
	if i, found := l.find(set); found {
		return l.sets[i]
	}
	return nil
}

func (l Entries) find(set string) (int, bool) {
	return slices.BinarySearchFunc(l.sets, set, func(own []Entry, set string) int {
		return strings.Compare(own[0].Set, set)
	})
}

// Has reports whether the list has an entry. Of a map's entry, only the key counts.
func (l Entries) Has(e Entry) bool {
	_, found := slices.BinarySearchFunc(l.Of(e.Set), e, Entry.Compare)
	return found
}

// Where returns a list of those that pass. It shares the slices of sets whose entries all do.
func (l Entries) Where(pass func(Entry) bool) Entries {
	var kept Entries
	for _, set := range l.sets {
		fails := func(e Entry) bool { return !pass(e) }
		if i := slices.IndexFunc(set, fails); i >= 0 {
			set = append(slices.Clone(set[:i]), slices.DeleteFunc(slices.Clone(set[i+1:]), fails)...)
		}
		if len(set) > 0 {
			kept.sets = append(kept.sets, set)
		}
	}
	return kept
}

// Equal reports whether two lists have equal entries.
func (l Entries) Equal(o Entries) bool {
	return slices.EqualFunc(l.sets, o.sets, func(a, b []Entry) bool { return SameSlice(a, b) || slices.Equal(a, b) })
}

// Shares reports whether two lists are the same memory, and so equal.
func (l Entries) Shares(o Entries) bool { return SameSlice(l.sets, o.sets) }

// With returns the list without the entries of gone, and with those of fresh. Both are
// sorted.
func (l Entries) With(gone, fresh []Entry) Entries {
	now := Entries{slices.Clone(l.sets)}
	for len(gone)+len(fresh) > 0 {
		set := first(gone, fresh)
		g, f := throughSet(gone, set), throughSet(fresh, set)
		now.replace(set, edited(now.Of(set), gone[:g], fresh[:f], compareEntries))
		gone, fresh = gone[g:], fresh[f:]
	}
	return now
}

// first returns the name of the first set of two sorted slices that are not both empty.
func first(a, b []Entry) string {
	if len(a) == 0 || len(b) > 0 && b[0].Set < a[0].Set {
		return b[0].Set
	}
	return a[0].Set
}

// replace gives a set other entries, in a list that was not handed on.
func (l *Entries) replace(set string, entries []Entry) {
	i, found := l.find(set)
	switch {
	case len(entries) == 0 && found:
		l.sets = slices.Delete(l.sets, i, i+1)
	case len(entries) == 0:
	case found:
		l.sets[i] = entries
	default:
		l.sets = slices.Insert(l.sets, i, entries)
	}
}

func compareEntries(a, b *Entry) int { return a.Compare(*b) }

// ascending reports whether the entries are sorted, with no two equal ones.
func (l Entries) ascending() bool {
	for i, set := range l.sets {
		if !ascending(set, Entry.Compare) || i > 0 && l.sets[i-1][0].Set >= set[0].Set {
			return false
		}
	}
	return true
}

// entryList is the List of entries.
type entryList struct{ sharedList[Entry, Entries] }

var entries = entryList{sharedList[Entry, Entries]{
	list: list[Entry]{
		get:     func(s State) []Entry { return s.Entries.Slice() },
		set:     func(s *State, all []Entry) { s.Entries = EntriesOf(all) },
		compare: Entry.Compare,
	},
	value:  func(s State) Entries { return s.Entries },
	put:    func(s *State, l Entries) { s.Entries = l },
	sorted: Entries.ascending,
}}

func (entryList) Find(s State, o Object) Object {
	e := o.(Entry)
	of := s.Entries.Of(e.Set)
	if i, found := slices.BinarySearchFunc(of, e, Entry.Compare); found {
		return of[i]
	}
	return nil
}

// parse appends an entry to those that were read before, which no other value shares.
func (entryList) parse(s *State, f []string) error {
	e, err := parseEntry(f)
	if err != nil {
		return err
	}
	sets := &s.Entries.sets
	if last := len(*sets) - 1; last >= 0 && (*sets)[last][0].Set == e.Set {
		(*sets)[last] = append((*sets)[last], e)
	} else {
		*sets = append(*sets, []Entry{e})
	}
	return nil
}
