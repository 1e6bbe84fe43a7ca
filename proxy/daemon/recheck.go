package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/events"
)

// recheckPeriod is how often a svcproxy without the preferred mode looks whether that could be used now.
const recheckPeriod = time.Hour

// recheck looks at each tick for a preferred mode that can be used by now, and says so once. The mode stays
// as it is until a restart, since only a start can take over what another mode serves.
func (c *console) recheck(ctx context.Context, tick <-chan time.Time, preferred func(context.Context) string) {
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick:
			found := preferred(ctx)
			if found == "" {
				continue
			}
			c.better.Store(&found)
			text := fmt.Sprintf("mode %s could be used now: restart svcproxy to use it instead of %s", found, c.about.Mode)
			c.log.Warn(text)
			c.ring.Add(events.Event{Time: now, Kind: events.ModeAvailable, Text: text})
			c.notify.update()
			return
		}
	}
}

// preferred returns the first mode that the start could not use and that this machine has everything for now;
// "" if there is none. It asks what the start asked.
func (s Setup) preferred(ctx context.Context, names kernel.Names) string {
	all, _ := s.inOrder() // Open has asked
	for _, m := range all {
		if m.Name() == s.used.Name() {
			break
		}
		for _, w := range s.ways(m) {
			again := s
			again.relay, again.without = nil, nil
			if k, err := again.openFor(ctx, names, w); err == nil {
				k.Close()
				return m.Name()
			}
		}
	}
	return ""
}

// lastMode returns the mode of the last run, "" if it is not known.
func (d *daemon) lastMode(stateDir string) string {
	last, err := host.LastMode(stateDir)
	if err != nil {
		d.log.Warn("cannot read the mode of the last run: this start does not wait for it to become available", "err", err)
	}
	return last
}
