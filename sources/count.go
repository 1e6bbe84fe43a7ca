package sources

import (
	"fmt"
	"strings"
)

// Count is a number of things in words: "1 service", "2 services", "3 addresses".
func Count[N int | uint64](n N, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Few joins words, at most n of them: "a, b, c and 4 more".
func Few(words []string, n int) string {
	if more := len(words) - n; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), more)
	}
	return strings.Join(words, ", ")
}
