//go:build !noapiserver

package apiserver

import (
	"math/rand/v2"
	"time"
)

// Pauses between attempts. They double from the first up to the longest, with a random part of half. They are
// variables for the tests.
var (
	firstPause = time.Second / 2
	longPause  = 15 * time.Second // if the API server cannot be reached, or refuses requests
	sorePause  = 40 * time.Second // if it answers and its answers are unusable
	// steady is how long a watch must last to count as successful.
	steady = 10 * time.Second
)

// mostDelay bounds the pause that an API server asks for.
const mostDelay = 2 * time.Minute

// pace is the number of failures in a row. Only a watch that lasts resets it: otherwise lists and watches that are
// answered and then fail would be repeated without a pause.
type pace int

// next is the pause before the next attempt: at least the seconds that the API server asks for. sore says that it
// answers but its answers are unusable.
func (p *pace) next(seconds int, sore bool) time.Duration {
	longest := longPause
	if sore {
		longest = sorePause
	}
	d := min(firstPause<<min(*p, 10), longest)
	*p++
	least := time.Duration(min(seconds, int(mostDelay/time.Second))) * time.Second
	return max(least, d/2+rand.N(d)) // random, so that nodes do not ask at the same time
}
