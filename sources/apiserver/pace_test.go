//go:build !noapiserver

package apiserver

import (
	"testing"
	"time"
)

// TestPace: pauses double up to the longest, with a random part of half. An API server can ask for two minutes at most.
func TestPace(t *testing.T) {
	within := func(what string, d, middle time.Duration) {
		t.Helper()
		if d < middle/2 || d > middle*3/2 {
			t.Errorf("%s: %s, want %s give or take half", what, d, middle)
		}
	}
	for _, sore := range []bool{false, true} {
		var p pace
		longest := map[bool]time.Duration{false: longPause, true: sorePause}[sore]
		for i := range 100 {
			within("pause", p.next(0, sore), min(firstPause<<min(i, 10), longest))
		}
	}
	for _, seconds := range []int{120, 121, 1 << 40, 1 << 62} {
		var p pace
		if d := p.next(seconds, false); d != mostDelay {
			t.Errorf("asked for %d s: %s, want %s", seconds, d, mostDelay)
		}
	}
}
