package proxy

import "time"

// How soon a failed sync is tried again: at first at once, in effect, then
// after twice as long each time. A kernel that refuses an op mostly goes on
// refusing it until somebody has changed something.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// drainLook is how often draining real servers are looked at: the kernel does
// not say when a connection has ended. kube-proxy looks once a minute.
const drainLook = 2 * time.Second

// pace is when the next sync is due. It is a value that the loop keeps up to
// date; it reads no clock.
type pace struct {
	minGap time.Duration // between two syncs
	period time.Duration // between two full checks

	changed  bool // something came that is not yet programmed
	failures int  // in a row
	draining bool
	wake     time.Time // nearest deadline of a drain; zero if there is none

	lastSync, lastFull time.Time // zero before the first
}

// due is when to sync next.
func (p pace) due() time.Time {
	if p.lastSync.IsZero() {
		return time.Time{}
	}
	due := p.lastFull.Add(p.period)
	earlier := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if p.changed {
		earlier(p.lastSync)
	}
	if p.failures > 0 {
		earlier(p.lastSync.Add(backoff(p.failures)))
	}
	if p.draining {
		earlier(p.lastSync.Add(drainLook))
		// One that has passed was acted upon; if in vain, trying again at once
		// would go on without a pause.
		if p.wake.After(p.lastSync) {
			earlier(p.wake)
		}
	}
	if soonest := p.lastSync.Add(p.minGap); due.Before(soonest) {
		return soonest
	}
	return due
}

// full says whether a sync at this time reads the whole kernel again.
func (p pace) full(now time.Time) bool {
	return p.lastFull.IsZero() || p.failures > 0 || !now.Before(p.lastFull.Add(p.period))
}

func backoff(failures int) time.Duration {
	wait := firstRetry
	for range failures - 1 {
		if wait *= 2; wait >= lastRetry {
			return lastRetry
		}
	}
	return wait
}
