package daemon

import (
	"fmt"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// announcer decides for the loop which VIPs are announced, and writes announce.file after each sync.
type announcer struct {
	daemon *daemon

	// Of the loop's goroutine.
	memory  announce.Memory
	departs announce.Departures
	starts  announce.Starts
	last    announce.Decision

	mu      sync.Mutex
	unsaved error // why the file could not be written
}

// Keep keeps VIPs that were removed until routers know.
func (a *announcer) Keep(m sources.Merged, have *kernel.Observed, hold bool) sources.Merged {
	c := a.daemon.setup().Config.ForAnnounce()
	m, a.departs = a.departs.Keep(&c, m, have.Announcements, hold, time.Now())
	return m
}

// Announce decides which VIPs are announced now.
func (a *announcer) Announce(f *frontend.Frontends, want *kernel.State, have *kernel.Observed) announce.Decision {
	d := a.daemon
	in := announce.Input{Frontends: f, Want: want, Have: have, Departs: a.departs, Starts: a.starts, Now: time.Now()}
	if d.checker != nil {
		in.Unusual = d.checker.Brief().Unusual
	}
	if drain := d.drained.State(); drain != nil {
		in.Drained = drain.Since
	}
	a.last = announce.Decide(d.setup().Config.ForAnnounce(), in, a.memory)
	a.memory = a.last.Memory
	return a.last
}

// synced writes announce.file if its content differs. While a table may be missing the file stays: it would lose VIPs.
// A drained node is said to be drained all the same.
func (a *announcer) synced(now *proxy.Snapshot) {
	if a == nil {
		return
	}
	if now.Report.Left > 0 {
		a.memory = a.memory.Untried()
	}
	for _, v := range now.Announced {
		if !v.Announced {
			a.departs.Withdrawn(v.Addr, time.Now())
		}
	}
	a.runs(now)
	if now.Frontends == nil || len(now.Report.Waiting) > 0 && a.last.Priority != announce.PriorityWithdrawn {
		return
	}
	c := a.daemon.setup().Config.Announce
	var err error
	if c.Mode != announce.Off && c.File != "" {
		d := a.last
		d.VIPs = now.Announced
		if err = statefile.Publish(c.File, []byte(d.File(c.Mode))); err != nil {
			err = fmt.Errorf("announce.file cannot be written, so routing daemons that read it do not know what is served: %w", err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsaved = err
}

// runs forgets the starts that did not last once this one did.
func (a *announcer) runs(now *proxy.Snapshot) {
	if a.starts.Count == 0 || now.Succeeded.IsZero() || time.Now().Before(a.starts.Good()) {
		return
	}
	a.starts = announce.Starts{}
	if err := lasted(a.daemon.setup().Config.RuntimeDir); err != nil {
		a.daemon.log.Warn("cannot forget this start: after two crashes VIPs would be withdrawn too early", "err", err)
	}
}

// warnings says what keeps routing daemons from knowing what is served.
func (a *announcer) warnings() []string {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unsaved == nil {
		return nil
	}
	return []string{a.unsaved.Error()}
}
