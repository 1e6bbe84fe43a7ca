package announce

import (
	"testing"
	"time"
)

// Five starts in more than a minute, none of which ran for a minute, withdraw everything until one has.
func TestStarts(t *testing.T) {
	var s Starts
	for i, c := range []struct {
		after    time.Duration
		count    int
		crashing bool
	}{
		{0, 1, false},
		{2 * time.Second, 2, false},
		{2 * time.Second, 3, false},
		{2 * time.Second, 4, false},
		{2 * time.Second, 5, false},
		{52 * time.Second, 6, true},
		{2 * time.Second, 7, true},
		{6 * time.Minute, 1, false}, // another cause
		{59 * time.Second, 2, false},
		{59 * time.Second, 3, false},
		{59 * time.Second, 4, false},
		{59 * time.Second, 5, true},
		{-time.Hour, 1, false}, // the clock was set
	} {
		now := start
		if s.Count > 0 {
			now = s.Last.Add(c.after)
		}
		if s = s.Next(now); s.Count != c.count || s.Crashing() != c.crashing || s.Good() != now.Add(time.Minute) {
			t.Errorf("step %d: %+v, crashing %t", i, s, s.Crashing())
		}
	}
}

// A svcproxy that crashed again and again announces nothing for a minute.
func TestCrashing(t *testing.T) {
	n := newNode(t, usual)
	n.starts = Starts{5, n.now.Add(-90 * time.Second), n.now}
	n.step(web)
	n.now = n.now.Add(59 * time.Second)
	n.want(n.step(web), "10.0.0.1: svcproxy crashed: 5 starts since 2025-12-31T23:58:30Z; announced once it has run for 1m0s")
	n.wakes(1)
	n.now = n.now.Add(time.Second)
	n.want(n.step(web), "10.0.0.1 metric 100")
	vrrp := usual
	vrrp.Mode = VRRP
	n = newNode(t, vrrp)
	n.starts = Starts{5, n.now.Add(-90 * time.Second), n.now}
	if n.step(web); n.last.Priority != PriorityWithdrawn {
		t.Errorf("priority %d", n.last.Priority)
	}
}
