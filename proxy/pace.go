package proxy

import (
	"time"

	"github.com/svcproxy/svcproxy/kernel/plan"
)

// A failed sync is tried again almost at once, then after twice as long each time, and
// all of the kernel is read for it. A kernel that refuses an op mostly goes on refusing it
// until a person or a program has changed something. Syncs for a change in between do not
// alter this pace, unless something else fails.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// drainGap is how often the connections of draining real servers are read: the kernel
// does not say when one has ended. kube-proxy reads them once a minute.
const drainGap = 2 * time.Second

// leastCheckGap is the shortest time between two checks of shards.
const leastCheckGap = time.Second

// leastQuickCheckGap is the shortest time between two quick checks. A change by another
// program to IPVS is noticed, and repaired, after about this time.
const leastQuickCheckGap = time.Second

// pace decides when the next sync is due. It is a value that the loop keeps up to date;
// it reads no clock.
type pace struct {
	minGap time.Duration // shortest time between two syncs
	period time.Duration // in which the whole kernel is checked

	changed  bool      // something arrived that no sync has taken yet
	answered bool      // so did answers of other hosts
	replan   bool      // so did changes of health
	more     bool      // the last plan left VIPs to the next one, which is due at once
	causes   CauseSet  // of that sync, if so
	failures int       // in a row
	retry    time.Time // when the next sync after a failure is due; of use while there are failures
	draining bool
	wake     time.Time // nearest deadline of a drain; zero without one
	overlay  time.Time // when the health overlay or an announcement changes by itself; zero = never

	// The kernel is checked in shards, each once in a period. next is the index of the
	// next one. whole: the next check is of everything instead.
	shards []plan.Shard
	next   int
	whole  bool

	written  bool // another program changed rules since they were checked
	checking bool // the sync that runs checks them for that reason
	rules    budget

	lastSync, lastCheck time.Time // zero before the first

	// quickCheckGap is the current gap between quick checks, and alarm says that the
	// last one found a difference. If full checks after quick checks find nothing to
	// do, because another program's table changes, quick checks become rare: each
	// causes a reading.
	lastQuickCheck time.Time
	quickCheckGap  time.Duration
	alarm          bool
}

// soonest is when the next sync or quick check is due.
func (p pace) soonest() time.Time {
	due := p.due()
	if p.lastSync.IsZero() || p.failures > 0 {
		return due
	}
	last := p.lastQuickCheck
	if p.lastSync.After(last) {
		last = p.lastSync
	}
	if quick := last.Add(max(p.quickCheckGap, leastQuickCheckGap)); quick.Before(due) {
		return quick
	}
	return due
}

// quickChecked notes the result of a quick check. After a difference everything is
// checked at once.
func (p *pace) quickChecked(now time.Time, same bool) {
	p.lastQuickCheck = now
	if same {
		p.quickCheckGap = max(p.quickCheckGap-leastQuickCheckGap/8, 0)
		return
	}
	p.alarm, p.lastCheck = true, time.Time{}
}

// verified notes whether a full check found anything to do.
func (p *pace) verified(found bool) {
	switch {
	case !p.alarm:
	case found:
		p.quickCheckGap = 0
	default:
		p.quickCheckGap = min(2*max(p.quickCheckGap, leastQuickCheckGap), p.period)
	}
	p.alarm = false
}

// due is when the next sync is due.
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
	if p.more {
		return p.lastSync
	}
	if p.changed || p.answered || p.replan {
		earlier(p.lastSync)
	}
	if p.overlay.After(p.lastSync) { // else the last sync applied it
		earlier(p.overlay)
	}
	if p.draining {
		earlier(p.lastSync.Add(drainGap))
	}
	// The last sync acted upon deadlines before it. If that was in vain, trying again at
	// once would never pause.
	if p.wake.After(p.lastSync) {
		earlier(p.wake)
	}
	if soonest := p.lastSync.Add(p.minGap); due.Before(soonest) {
		due = soonest
	}
	if next := p.rules.next(); p.written && next.Before(due) {
		return next
	}
	return due
}

// wakes makes the overlay, and what follows it, be applied again at a time; zero is never.
func (p *pace) wakes(at time.Time) {
	if !at.IsZero() && (p.overlay.IsZero() || at.Before(p.overlay)) {
		p.overlay = at
	}
}

// overlaid reports whether the health overlay is to be applied again.
func (p pace) overlaid(now time.Time) bool {
	return p.replan || !p.overlay.IsZero() && !now.Before(p.overlay)
}

// checkDue is when the next shard is due. After a period the turn begins again. After a failure it is when
// everything is due.
func (p pace) checkDue() time.Time {
	if p.failures > 0 {
		if whole := p.lastCheck.Add(p.period); whole.Before(p.retry) {
			return whole
		}
		return p.retry
	}
	return p.lastCheck.Add(p.period / time.Duration(max(1, len(p.shards))))
}

// check returns the shard that a sync at this time checks, if a check is due.
func (p pace) check(now time.Time) (plan.Shard, bool) {
	switch {
	case p.lastCheck.IsZero():
		return plan.Everything, true
	case now.Before(p.checkDue()):
		return plan.Shard{}, p.rulesDue(now) // of what all shards have, chains among it
	case p.failures > 0 || p.whole || len(p.shards) == 0:
		return plan.Everything, true
	}
	return p.shards[p.next], true
}

// checked notes that the shard that was due, or everything, is as known. At the end of
// a turn, cut divides what is known now into shards, at most so many. If their number
// differs, everything is checked before the new ones, or an object could wait for more
// than a period in its new shard.
func (p *pace) checked(now time.Time, everything bool, cut func(most int) []plan.Shard) {
	due := p.checkDue()
	p.lastCheck = now
	if !everything {
		p.next = (p.next + 1) % len(p.shards)
		// One late check does not delay the rest of the turn.
		if late := now.Sub(due); late < p.period/time.Duration(len(p.shards)) {
			p.lastCheck = due
		}
	}
	if !everything && p.next > 0 {
		return
	}
	shards := cut(p.mostShards())
	if everything {
		p.shards, p.next, p.whole = shards, 0, false
	} else {
		p.whole = len(shards) != len(p.shards)
	}
}

// failed notes a sync that failed. The next one is soon and checks everything.
func (p *pace) failed(now time.Time) {
	p.failures++
	p.retry, p.lastCheck = now.Add(backoff(p.failures)), now
}

// checkWhole makes the next period's check one of everything instead of shards. What
// differed once may differ again, and each difference costs a whole reading.
func (p *pace) checkWhole() { p.shards, p.next = []plan.Shard{plan.Everything}, 0 }

// mostShards is how many checks fit in a period.
func (p pace) mostShards() int {
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
