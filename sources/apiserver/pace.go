//go:build !noapiserver

package apiserver

import (
	"math/rand/v2"
	"time"
)

// Pauses between attempts: the first, then twice as long each time up to the longest, give or take half.
// Variables for the tests, which have no time.
var (
	firstPause = time.Second / 2
	longPause  = 15 * time.Second // while the API server cannot be reached, or refuses
	sorePause  = 40 * time.Second // while it answers, and its answers are no good
	// steady is how long a watch must last to count as a good one.
	steady = 10 * time.Second
)

// mostDelay is the longest that an API server is left alone because it asks for it.
const mostDelay = 2 * time.Minute

// pace is how many attempts went wrong one after the other. Only a watch that lasts ends the row: lists and
// watches that are answered and then fail would make a circle without a pause.
type pace int

// next is how long to wait before the next attempt: at least the seconds asked for. sore says that the API
// server is there but its answers are no good.
func (p *pace) next(seconds int, sore bool) time.Duration {
	longest := longPause
	if sore {
		longest = sorePause
	}
	d := min(firstPause<<min(*p, 10), longest)
	*p++
	least := time.Duration(min(seconds, int(mostDelay/time.Second))) * time.Second
	return max(least, d/2+rand.N(d)) // apart from other nodes
}
