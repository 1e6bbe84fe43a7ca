package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/machine"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// limitsPeriod is the time between two looks at the limits that connections meet on this node.
const limitsPeriod = 5 * time.Second

// limitsRest is how long a limit must not have been met before its condition ends: load near a limit comes and goes.
const limitsRest = 20 * time.Second

// watchLimits says which limits are met, until ctx ends. The relay is nil but in mode userspace.
func (d *daemon) watchLimits(ctx context.Context, r *relay.Relay, counters *host.Counters) {
	tick := time.NewTicker(limitsPeriod)
	defer tick.Stop()
	tracked, short := machine.ReadConntrack(), relay.Stats{}
	full, relayed, meters := lingering{}, lingering{}, lingering{}
	refused, err := counters.Refused() // before this process
	known := err == nil
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

		if metered := d.metered(); len(metered) > 0 || len(meters) > 0 {
			if now, err := counters.Refused(); err == nil {
				var list []condition.Condition
				if known {
					list = fullMeters(metered, refused, now)
				}
				refused, known = now, true
				d.conditions.SetAll(condition.MeterFull, meters.with(time.Now(), limitsRest, list))
			} // else the next look may tell
		}
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

// metered returns the services with limits for each client.
func (d *daemon) metered() (list []*sources.Service) {
	if s := d.proxy.Snapshot(); s != nil {
		for _, x := range s.Table.Services.All() {
			if x.Clients != nil && x.Clients.PerClient {
				list = append(list, x)
			}
		}
	}
	return list
}

// fullMeters are the services with clients for whom a meter had no room between two readings.
func fullMeters(services []*sources.Service, before, now map[string]kernel.Refusals) (list []condition.Condition) {
	for _, s := range services {
		hash := kernel.HashOf(s.Namespace, s.Name)
		of := func(r kernel.Refusals) uint64 { return r[kernel.MeterFull] + r[kernel.Unmetered] }
		if of(now[hash]) <= of(before[hash]) {
			continue
		}
		text := fmt.Sprintf("%d clients have connections or a rate by now: ", mode.MeterSize)
		if s.Clients.Closed {
			text += `more get no connections (limits.whenFull = "closed")`
		} else {
			text += `more have no limit (limits.whenFull = "open")`
		}
		list = append(list, condition.Condition{Subject: s.DisplayName(), Text: text})
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
