package screen

import (
	"fmt"
	"math"
	"time"
)

// Count formats a number with at most five characters: 999, 12.3k, 4.6M.
func Count(n uint64) string { return amount(float64(n), 1000) }

// Bytes formats a number of bytes with at most five characters, in powers of 1024.
func Bytes(n uint64) string { return amount(float64(n), 1024) }

// Rate formats a number per second with at most five characters: 0.3, 12, 4.6k.
// Base is 1000, or 1024 for bytes.
func Rate(perSecond, base float64) string {
	if perSecond > 0 && perSecond < 9.95 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return amount(math.Round(perSecond), base)
}

// amount formats a number with a unit prefix.
func amount(n, base float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	for _, unit := range "kMGTPE" {
		n /= base
		switch {
		case n < 99.95:
			return fmt.Sprintf("%.1f%c", n, unit)
		case n < 999.5:
			return fmt.Sprintf("%.0f%c", n, unit)
		}
	}
	return fmt.Sprintf("%.0fE", n)
}

// Age formats a duration with at most two units: 350ms, 12s, 3m5s, 2h10m, 5d3h.
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "m")
	}
	return two(d, 24*time.Hour, "d", time.Hour, "h")
}

// two formats a duration with two units, or one if the second is 0.
func two(d, big time.Duration, bigUnit string, small time.Duration, smallUnit string) string {
	text := fmt.Sprintf("%d%s", d/big, bigUnit)
	if rest := d % big / small; rest > 0 {
		text += fmt.Sprintf("%d%s", rest, smallUnit)
	}
	return text
}
