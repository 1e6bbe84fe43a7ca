package kernel

import (
	"iter"
	"slices"
	"sort"
)

// Reals is a sorted list of real servers. It is a value: nothing changes a list that was
// handed on. Lists that follow each other share memory: a change copies and compares only
// the run that it is in, and not the others of 100,000 real servers.
type Reals struct {
	runs [][]Real // none empty; all real servers of a virtual server are in one
}

// RealsOf returns a list of sorted real servers. It keeps the slice.
func RealsOf(sorted []Real) Reals { return Reals{cutReals(nil, sorted)} }

func cutReals(runs [][]Real, all []Real) [][]Real { return cutRuns(runs, all, compareVirtuals) }

func compareVirtuals(a, b *Real) int { return CompareKeys(&a.Key.Virtual, &b.Key.Virtual) }

// ascending reports whether the real servers are sorted and no two have one key.
func (l Reals) ascending() bool { return ascendingRuns(l.runs, Real.Compare) }

// Len counts the real servers.
func (l Reals) Len() int { return countRuns(l.runs) }

// Runs returns the real servers in consecutive parts. Callers must not change them.
func (l Reals) Runs() [][]Real { return l.runs }

// All gives the real servers with their indexes.
func (l Reals) All() iter.Seq2[int, Real] {
	return func(yield func(int, Real) bool) {
		i := 0
		for _, run := range l.runs {
			for _, r := range run {
				if !yield(i, r) {
					return
				}
				i++
			}
		}
	}
}

// Slice returns a copy of the real servers.
func (l Reals) Slice() []Real { return slices.Concat(l.runs...) }

// Where returns a list of those that pass.
func (l Reals) Where(pass func(*Real) bool) Reals {
	kept := make([]Real, 0, l.Len())
	for _, run := range l.runs {
		for i := range run {
			if pass(&run[i]) {
				kept = append(kept, run[i])
			}
		}
	}
	return RealsOf(kept)
}

// Equal reports whether two lists have equal real servers.
func (l Reals) Equal(o Reals) bool {
	same := l.Len() == o.Len()
	l.Unshared(o, func(a, b []Real, _ int) { same = same && slices.Equal(a, b) })
	return same
}

// Shares reports whether two lists are the same memory, and so equal.
func (l Reals) Shares(o Reals) bool { return SameSlice(l.runs, o.runs) }

// Of returns the real servers of a virtual server. Callers must not change them.
func (l Reals) Of(v VirtualKey) []Real {
	i := sort.Search(len(l.runs), func(i int) bool { return CompareKeys(&l.runs[i][0].Key.Virtual, &v) > 0 })
	if i == 0 {
		return nil
	}
	run := l.runs[i-1]
	run = run[sort.Search(len(run), func(i int) bool { return CompareKeys(&run[i].Key.Virtual, &v) >= 0 }):]
	end := 0
	for end < len(run) && run[end].Key.Virtual.Same(&v) {
		end++
	}
	return run[:end:end]
}

// Has reports whether the list has a real server with a key.
func (l Reals) Has(k RealKey) bool {
	_, found := findReal(l.Of(k.Virtual), k)
	return found
}

// Index returns the index of the real server with a key.
func (l Reals) Index(k RealKey) (int, bool) {
	before := 0
	for i, run := range l.runs {
		if i+1 == len(l.runs) || CompareKeys(&l.runs[i+1][0].Key.Virtual, &k.Virtual) > 0 {
			at, found := findReal(run, k)
			return before + at, found
		}
		before += len(run)
	}
	return 0, false
}

func findReal(sorted []Real, k RealKey) (int, bool) {
	return slices.BinarySearchFunc(sorted, k, func(r Real, k RealKey) int { return r.Key.Compare(k) })
}

// With returns the list without the real servers that have the keys of gone, and with
// those of fresh, which replace others of the same key. Both are sorted.
func (l Reals) With(gone, fresh []Real) Reals {
	return Reals{editedRuns(l.runs, gone, fresh, compareVirtuals, compareReals, cutReals)}
}

func compareReals(a, b *Real) int { return a.Key.Compare(b.Key) }

// Unshared calls f with the parts of two lists that are not the same memory, in order.
// All of both lists that is about a virtual server is in one call, with one of the parts
// empty if only one list has it. at is the index in o of the part of o.
func (l Reals) Unshared(o Reals, f func(own, other []Real, at int)) {
	unshared(l.runs, o.runs, compareVirtuals, func(own, other []Real, at int) { f(own, other, at) }) // f does not escape
}

// RealCursor finds the real servers of virtual servers that are asked for in order.
type RealCursor struct {
	runs [][]Real
	run  []Real // what is left of the one before runs
}

// Cursor returns a cursor in front of all real servers.
func (l Reals) Cursor() RealCursor { return RealCursor{runs: l.runs} }

// more moves on to the next run at the end of one, and reports whether anything is left.
func (c *RealCursor) more() bool {
	for len(c.run) == 0 && len(c.runs) > 0 {
		c.run, c.runs = c.runs[0], c.runs[1:]
	}
	return len(c.run) > 0
}

// Next returns the real servers of a virtual server and skips those of virtual servers
// before it. Callers must not change them.
func (c *RealCursor) Next(v VirtualKey) []Real {
	for c.more() {
		r := c.run
		start := 0
		for start < len(r) && !r[start].Key.Virtual.Same(&v) && r[start].Key.Virtual.Compare(v) < 0 {
			start++
		}
		end := start
		for end < len(r) && r[end].Key.Virtual.Same(&v) {
			end++
		}
		if c.run = r[end:]; start < len(r) {
			return r[start:end:end]
		}
	}
	return nil
}
