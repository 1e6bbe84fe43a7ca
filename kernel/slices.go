package kernel

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

// SameSlice says whether two slices are the same memory, and so equal. The slices of a
// State that was handed on are never changed.
func SameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
