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

// watchLimits says which limits are met, until ctx ends. The relay is nil but in mode userspace.
func (d *daemon) watchLimits(ctx context.Context, r *relay.Relay) {
	tick := time.NewTicker(limitsPeriod)
	defer tick.Stop()
	tracked, short := machine.ReadConntrack(), relay.Stats{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := machine.ReadConntrack()
		text, hint := now.Trouble(tracked, limitsPeriod)
		d.conditions.Set(condition.ConntrackFull, "", text, hint)
		tracked = now
		if r != nil {
			now := r.Stats()
			d.conditions.SetAll(condition.RelayFull, shortages(short, now))
			short = now
		}
	}
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
