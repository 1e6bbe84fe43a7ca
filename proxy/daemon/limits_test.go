package daemon

import (
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
)

// A limit that is met now and then is one condition, which ends when it has not been met for a while.
func TestLimitsDoNotFlap(t *testing.T) {
	l, now := lingering{}, time.Now()
	seen := []condition.Condition{{Subject: "files", Text: "none left"}}
	for i, c := range []struct {
		after time.Duration
		seen  []condition.Condition
		want  int
	}{{0, nil, 0}, {limitsPeriod, seen, 1}, {limitsPeriod, nil, 1}, {limitsPeriod, seen, 1}, {limitsRest, nil, 1}, {1, nil, 0}} {
		now = now.Add(c.after)
		if got := l.with(now, limitsRest, c.seen); len(got) != c.want {
			t.Errorf("look %d: %v", i, got)
		}
	}
}
