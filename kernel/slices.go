package kernel

import "sort"

// Walk goes through two sorted slices side by side. It reports elements that only one of
// them has, with nil for the other, and pairs that differ.
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

// edited returns sorted elements without those of gone, and with those of fresh, which
// replace equal ones. Both are sorted. It compares where something changes, and copies what is between in one piece.
func edited[T any](sorted, gone, fresh []T, compare func(a, b *T) int) []T {
	now := make([]T, 0, max(0, len(sorted)-len(gone))+len(fresh))
	for len(gone)+len(fresh) > 0 {
		comes := len(gone) == 0 || len(fresh) > 0 && compare(&fresh[0], &gone[0]) <= 0
		var v *T
		if comes {
			v, fresh = &fresh[0], fresh[1:]
		} else {
			v, gone = &gone[0], gone[1:]
		}
		stays := countBefore(sorted, v, compare)
		now, sorted = append(now, sorted[:stays]...), sorted[stays:]
		if len(sorted) > 0 && compare(&sorted[0], v) == 0 {
			sorted = sorted[1:]
		}
		if comes {
			now = append(now, *v)
		}
	}
	return append(now, sorted...)
}

// countBefore returns how many of sorted elements come before another one.
func countBefore[T any](sorted []T, v *T, compare func(a, b *T) int) int {
	if len(sorted) == 0 || compare(&sorted[0], v) >= 0 { // mostly
		return 0
	}
	return sort.Search(len(sorted), func(i int) bool { return compare(&sorted[i], v) >= 0 })
}

// SameSlice reports whether two slices are the same memory, and so equal. The slices of a
// State that was handed on are never changed.
func SameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
