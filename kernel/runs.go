package kernel

import "sort"

// A list of runs is a sorted list in consecutive slices. Elements that compare as equal by a group are in one of them.
// Lists that follow each other share the runs that did not change.

// runLength is how many elements a run has at least, but for the last one and those that lost some. Runs are cut that
// have twice as many. A change copies one run and the list of runs: of 100,000 real servers 20 and 10 kB.
var runLength = 256

// cutRuns appends sorted elements in runs.
func cutRuns[T any](runs [][]T, all []T, group func(a, b *T) int) [][]T {
	for len(all) > 2*runLength {
		end := runLength
		for end < len(all) && group(&all[end-1], &all[end]) == 0 {
			end++
		}
		runs, all = append(runs, all[:end:end]), all[end:]
	}
	if len(all) > 0 {
		runs = append(runs, all[:len(all):len(all)])
	}
	return runs
}

// editedRuns is edited for runs. cut appends a run that changed.
func editedRuns[T any](runs [][]T, gone, fresh []T, group, compare func(a, b *T) int,
	cut func(runs [][]T, all []T) [][]T) [][]T {
	if len(runs) == 0 {
		return cut(nil, edited(nil, gone, fresh, compare))
	}
	now := make([][]T, 0, len(runs)+1)
	for i, run := range runs {
		g, f := gone, fresh
		if i+1 < len(runs) {
			next := &runs[i+1][0]
			g, f = gone[:countBefore(gone, next, group)], fresh[:countBefore(fresh, next, group)]
		}
		gone, fresh = gone[len(g):], fresh[len(f):]
		if len(g)+len(f) > 0 {
			now = cut(now, edited(run, g, f, compare))
		} else {
			now = append(now, run)
		}
	}
	return now
}

func countRuns[T any](runs [][]T) (n int) {
	for _, run := range runs {
		n += len(run)
	}
	return n
}

// ascendingRuns reports whether the elements are sorted and no two compare as equal.
func ascendingRuns[T any](runs [][]T, compare func(a, b T) int) bool {
	for i, run := range runs {
		if !ascending(run, compare) || i > 0 && compare(*last(runs[i-1]), run[0]) >= 0 {
			return false
		}
	}
	return true
}

func last[T any](run []T) *T { return &run[len(run)-1] }

// unshared calls f with the parts of two lists that are not the same memory, in order. All of a group in both lists is
// in one call, with one of the parts empty if only one list has it. at is the index in other of its part.
func unshared[T any](own, other [][]T, group func(a, b *T) int, f func(own, other []T, at int)) {
	var a, b []T // what is left of the runs before own and other
	at := 0
	for {
		if len(a) == 0 && len(own) > 0 {
			a, own = own[0], own[1:]
		}
		if len(b) == 0 && len(other) > 0 {
			b, other = other[0], other[1:]
		}
		switch {
		case len(a)+len(b) == 0:
			return
		case SameSlice(a, b):
			at += len(b)
			a, b = nil, nil
			continue
		}
		part, otherPart := a, b
		if len(a) > 0 && len(b) > 0 {
			part, otherPart = through(a, last(b), group), through(b, last(a), group)
		}
		f(part, otherPart, at)
		at += len(otherPart)
		a, b = a[len(part):], b[len(otherPart):]
	}
}

// through returns the part of sorted elements up to those of a group, with them.
func through[T any](sorted []T, v *T, group func(a, b *T) int) []T {
	if group(last(sorted), v) <= 0 { // mostly
		return sorted
	}
	return sorted[:sort.Search(len(sorted), func(i int) bool { return group(&sorted[i], v) > 0 })]
}
