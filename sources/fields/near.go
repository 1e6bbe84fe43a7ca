package fields

import "strings"

// Near returns the candidate that a mistyped word was probably meant to be, or "" if none is near. Near means the same
// letters in another case, or at most one slip in three letters.
func Near(word string, candidates []string) string {
	best, least := "", max(1, len(word)/3)+1
	if len(word) > 64 {
		return ""
	}
	for _, c := range candidates {
		if strings.EqualFold(c, word) {
			return c
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, drop, replace or swap with their neighbour to get from one word to the
// other (optimal string alignment).
func distance(a, b string) int {
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
