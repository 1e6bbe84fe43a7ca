package daemon

import (
	"context"
	"time"

	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy/condition"
)

// limitsPeriod is the time between two looks at the limits that connections meet on this node.
const limitsPeriod = 5 * time.Second

// limitsRest is how long a limit must not have been met before its condition ends: load near a limit comes and goes.
const limitsRest = 20 * time.Second

// watchLimits says which limits are met, until ctx ends. The relay is nil but in mode userspace.
func (d *daemon) watchLimits(ctx context.Context, r *relay.Relay) {
	tick := time.NewTicker(limitsPeriod)
	defer tick.Stop()
	tracked, short := machine.ReadConntrack(), relay.Stats{}
	full, relayed := lingering{}, lingering{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := machine.ReadConntrack()
		var list []condition.Condition
		if text, hint := now.Trouble(tracked, limitsPeriod); text != "" {
			list = append(list, condition.Condition{Text: text, Hint: hint})
		}
		tracked = now
		d.conditions.SetAll(condition.ConntrackFull, full.with(time.Now(), limitsRest, list))
		if r != nil {
			now := r.Stats()
			d.conditions.SetAll(condition.RelayFull, relayed.with(time.Now(), limitsRest, shortages(short, now)))
			short = now
		}
	}
}

// lingering has conditions by subject, each with when it ends unless it is seen again.
type lingering map[string]lingered

type lingered struct {
	condition.Condition
	until time.Time
}

// with adds what was seen now, to stand for so long, and returns all that stands.
func (l lingering) with(now time.Time, rest time.Duration, seen []condition.Condition) (list []condition.Condition) {
	for _, c := range seen {
		l[c.Subject] = lingered{c, now.Add(rest)}
	}
	for subject, c := range l {
		if now.After(c.until) {
			delete(l, subject)
			continue
		}
		list = append(list, c.Condition)
	}
	return list
}

// shortages are the limits of the relay that were met between two readings.
func shortages(before, now relay.Stats) (list []condition.Condition) {
	for s, n := range now.Shortages {
		if n > before.Shortages[s] {
			kind := relay.Shortage(s)
			list = append(list, condition.Condition{Subject: kind.Of(), Text: kind.String()})
		}
	}
	return list
}

// unwatched says that changes of something are not told by the kernel, or that they are again.
func (d *daemon) unwatched(what string, err error) {
	text := ""
	if err != nil {
		text = "not watched: " + err.Error()
	}
	d.conditions.Set(condition.Unwatched, what, text, "")
}
