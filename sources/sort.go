package sources

import "sort"

// SortFunc sorts as slices.SortFunc does, which is compiled for each type and adds 30 KB to the program each time. This
// one adds 1 KB, is slower and allocates: it is for lists that are short, or sorted already, or rarely made.
func SortFunc[T any](s []T, compare func(a, b T) int) {
	sort.Slice(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
}

// SortStableFunc is SortFunc that keeps the order of equal elements.
func SortStableFunc[T any](s []T, compare func(a, b T) int) {
	sort.SliceStable(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
}
