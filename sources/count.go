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
