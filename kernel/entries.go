package kernel

import (
	"iter"
	"slices"
	"sort"
	"strings"
)

// Entries is a sorted list of the entries of sets. It is a value: nothing changes a list
// that was handed on. Lists that follow each other share memory: a change copies and
// compares only the run that it is in.
type Entries struct {
	runs [][]Entry // none empty, each of one set, with all that the set has of an address, protocol and port
}

// EntriesOf returns a list of sorted entries. It keeps the slice.
func EntriesOf(sorted []Entry) Entries { return Entries{cutEntries(nil, sorted)} }

func cutEntries(runs [][]Entry, all []Entry) [][]Entry {
	for len(all) > 0 {
		n := throughSet(all, all[0].Set)
		runs, all = cutRuns(runs, all[:n], compareEntryKeys), all[n:]
	}
	return runs
}

// compareEntryKeys orders entries by their sets, then by address, protocol and port.
func compareEntryKeys(a, b *Entry) int {
	if c := strings.Compare(a.Set, b.Set); c != 0 {
		return c
	}
	if a.Addr != b.Addr { // mostly
		return a.Addr.Compare(b.Addr)
	}
	return a.Key().Compare(b.Key())
}

// throughSet counts the sorted entries up to those of a set, with them.
func throughSet(sorted []Entry, set string) int {
	if len(sorted) > 0 && sorted[len(sorted)-1].Set <= set { // mostly
		return len(sorted)
	}
	return sort.Search(len(sorted), func(i int) bool { return sorted[i].Set > set })
}

// Len counts the entries.
func (l Entries) Len() int { return countRuns(l.runs) }

// Runs returns the entries in consecutive parts, each of one set. Callers must not change them.
func (l Entries) Runs() [][]Entry { return l.runs }

// All gives the entries.
func (l Entries) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, run := range l.runs {
			for _, e := range run {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Slice returns a copy of the entries.
func (l Entries) Slice() []Entry { return slices.Concat(l.runs...) }

// Of returns the entries of a set.
func (l Entries) Of(set string) Entries {
	first := sort.Search(len(l.runs), func(i int) bool { return l.runs[i][0].Set >= set })
	end := first
	for end < len(l.runs) && l.runs[end][0].Set == set {
		end++
	}
	return Entries{l.runs[first:end:end]}
}

// At returns the entries of e's set that have its address, protocol and port. Callers must not change them.
func (l Entries) At(e Entry) []Entry {
	run := l.run(&e)
	run = run[sort.Search(len(run), func(i int) bool { return compareEntryKeys(&run[i], &e) >= 0 }):]
	end := 0
	for end < len(run) && compareEntryKeys(&run[end], &e) == 0 {
		end++
	}
	return run[:end:end]
}

// run returns the run that entries with a key are in, if there are any.
func (l Entries) run(e *Entry) []Entry {
	i := sort.Search(len(l.runs), func(i int) bool { return compareEntryKeys(&l.runs[i][0], e) > 0 })
	if i == 0 {
		return nil
	}
	return l.runs[i-1]
}

// Find returns the entry that compares as equal: of a map's entry, only the key counts.
func (l Entries) Find(e Entry) (found Entry, ok bool) {
	run := l.run(&e)
	i, ok := sort.Find(len(run), func(i int) int { return compareEntries(&e, &run[i]) })
	if ok {
		found = run[i]
	}
	return found, ok
}

// Has reports whether the list has an entry. Of a map's entry, only the key counts.
func (l Entries) Has(e Entry) bool {
	_, found := l.Find(e)
	return found
}

// Where returns a list of those that pass. It shares the runs whose entries all do.
func (l Entries) Where(pass func(Entry) bool) Entries {
	var kept Entries
	for _, run := range l.runs {
		fails := func(e Entry) bool { return !pass(e) }
		if i := slices.IndexFunc(run, fails); i >= 0 {
			run = append(slices.Clone(run[:i]), slices.DeleteFunc(slices.Clone(run[i+1:]), fails)...)
		}
		if len(run) > 0 {
			kept.runs = append(kept.runs, run)
		}
	}
	return kept
}

// Equal reports whether two lists have equal entries.
func (l Entries) Equal(o Entries) bool {
	same := l.Len() == o.Len()
	l.Unshared(o, func(a, b []Entry) { same = same && slices.Equal(a, b) })
	return same
}

// Shares reports whether two lists are the same memory, and so equal.
func (l Entries) Shares(o Entries) bool { return SameSlice(l.runs, o.runs) }

// Unshared calls f with the parts of two lists that are not the same memory, in order. All that a set has of an
// address, protocol and port in both lists is in one call, with one of the parts empty if only one list has it.
func (l Entries) Unshared(o Entries, f func(own, other []Entry)) {
	unshared(l.runs, o.runs, compareEntryKeys, func(a, b []Entry, _ int) { f(a, b) })
}

// With returns the list without the entries of gone, and with those of fresh. Both are
// sorted.
func (l Entries) With(gone, fresh []Entry) Entries {
	return Entries{editedRuns(l.runs, gone, fresh, compareEntryKeys, compareEntries, cutEntries)}
}

// Join returns a list of the entries of both, which have no set in common.
func (l Entries) Join(o Entries) Entries {
	switch {
	case len(o.runs) == 0:
		return l
	case len(l.runs) == 0:
		return o
	}
	all := slices.Concat(l.runs, o.runs)
	slices.SortStableFunc(all, func(a, b []Entry) int { return strings.Compare(a[0].Set, b[0].Set) })
	return Entries{all}
}

// compareEntries is Entry.Compare, faster where the addresses differ: that one copies both.
func compareEntries(a, b *Entry) int {
	if c := compareEntryKeys(a, b); c != 0 {
		return c
	}
	return a.Compare(*b)
}

// ascending reports whether the entries are sorted, with no two equal ones.
func (l Entries) ascending() bool { return ascendingRuns(l.runs, Entry.Compare) }

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
	if e, found := s.Entries.Find(o.(Entry)); found {
		return e
	}
	return nil
}

// parse appends an entry to those that were read before, which no other value shares.
func (entryList) parse(s *State, f []string) error {
	e, err := parseEntry(f)
	if err != nil {
		return err
	}
	runs := &s.Entries.runs
	if n := len(*runs); n > 0 && (*runs)[n-1][0].Set == e.Set {
		(*runs)[n-1] = append((*runs)[n-1], e)
	} else {
		*runs = append(*runs, []Entry{e})
	}
	return nil
}
