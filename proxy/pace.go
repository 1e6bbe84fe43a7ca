package proxy

import (
	"time"

	"github.com/svcproxy/svcproxy/kernel/verify"
)

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

// leastCheckGap is between two checks of parts.
const leastCheckGap = time.Second

// leastGlanceGap is between two glances: what another program did to IPVS is known
// after it, and repaired.
const leastGlanceGap = time.Second

// pace is when the next sync is due. It is a value that the loop keeps up to
// date; it reads no clock.
type pace struct {
	minGap time.Duration // between two syncs
	period time.Duration // in which the whole kernel is checked

	changed  bool // something came that is not yet programmed
	answered bool // other hosts were asked about VIPs, and what came of it is not yet heeded
	failures int  // in a row
	draining bool
	wake     time.Time // nearest deadline of a drain; zero if there is none

	// The kernel is checked in these, one after the other and all in one period;
	// next is the index of the one that comes next.
	parts []verify.Shard
	next  int
	whole bool // the next check is of everything, whatever part it is the turn of

	lastSync, lastCheck time.Time // zero before the first

	// glanceGap is between two glances at least, and alarm says that the last one
	// found a difference. Where these come to nothing, because it is another
	// program's table that changes, they become rare: each costs a reading.
	lastGlance time.Time
	glanceGap  time.Duration
	alarm      bool
}

// soonest is when there is something to do next: a sync or a glance.
func (p pace) soonest() time.Time {
	due := p.due()
	if p.lastSync.IsZero() || p.failures > 0 {
		return due
	}
	last := p.lastGlance
	if p.lastSync.After(last) {
		last = p.lastSync
	}
	if glance := last.Add(max(p.glanceGap, leastGlanceGap)); glance.Before(due) {
		return glance
	}
	return due
}

// glanced notes what a glance saw: a difference has everything checked at once.
func (p *pace) glanced(now time.Time, same bool) {
	p.lastGlance = now
	if same {
		p.glanceGap = max(p.glanceGap-leastGlanceGap/8, 0)
		return
	}
	p.alarm, p.lastCheck = true, time.Time{}
}

// verified notes whether a full check found anything to do.
func (p *pace) verified(found bool) {
	switch {
	case !p.alarm:
	case found:
		p.glanceGap = 0
	default:
		p.glanceGap = min(2*max(p.glanceGap, leastGlanceGap), p.period)
	}
	p.alarm = false
}

// due is when to sync next.
func (p pace) due() time.Time {
	if p.lastSync.IsZero() {
		return time.Time{}
	}
	due := p.checkDue()
	earlier := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if p.changed || p.answered {
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

// checkDue is when to check the next part of the kernel: what was checked first
// comes again when a period is over.
func (p pace) checkDue() time.Time {
	return p.lastCheck.Add(p.period / time.Duration(max(1, len(p.parts))))
}

// check says which part of the kernel a sync at this time checks, if any.
func (p pace) check(now time.Time) (verify.Shard, bool) {
	switch {
	case p.lastCheck.IsZero(), p.failures > 0:
		return verify.Everything, true
	case now.Before(p.checkDue()):
		return verify.Shard{}, false
	case p.whole || len(p.parts) == 0:
		return verify.Everything, true
	}
	return p.parts[p.next], true
}

// checked notes that the part that was due was found as it was known, or else that
// everything was read. What is known now is cut into parts by cut, into so many at
// most; it is cut anew only for another number of them, and then everything is
// checked first, lest something comes later than a period in its new part.
func (p *pace) checked(now time.Time, everything bool, cut func(most int) []verify.Shard) {
	due := p.checkDue()
	p.lastCheck = now
	if !everything {
		p.next = (p.next + 1) % len(p.parts)
		// One that is late does not make the rest of its turn so.
		if late := now.Sub(due); late < p.period/time.Duration(len(p.parts)) {
			p.lastCheck = due
		}
	}
	if !everything && p.next > 0 {
		return
	}
	parts := cut(p.mostParts())
	if everything {
		p.parts, p.next, p.whole = parts, 0, false
	} else {
		p.whole = len(parts) != len(p.parts)
	}
}

// failed notes a sync that failed: the next one is soon, and checks everything.
func (p *pace) failed(now time.Time) {
	p.failures++
	p.lastCheck = now
}

// doubt has everything checked in one in the next period, instead of in parts: what
// differed once may do so again, and costs a whole reading each time.
func (p *pace) doubt() { p.parts, p.next = []verify.Shard{verify.Everything}, 0 }

// mostParts is how many checks there is room for in a period.
func (p pace) mostParts() int {
	return max(1, int(p.period/max(p.minGap, leastCheckGap)))
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
