package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// announceFile is the name of announce.file for the Keeper.
const announceFile = "announce.file"

// announcer decides for the loop which VIPs are announced, and writes announce.file after each sync.
type announcer struct {
	daemon *daemon

	// Of the loop's goroutine.
	memory  announce.Memory
	before  *announce.Memory // memory before the decision of the running sync; nil if it made none
	departs announce.Departures
	starts  announce.Starts
	last    announce.Decision
	number  number          // in announce.file, mode vrrp
	wrote   config.Announce // which announce.file was written last
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
	in := announce.Input{Frontends: f, Want: want, Have: have, WhyNot: d.setup().mode().WhyNot, Departs: a.departs, Starts: a.starts, Now: time.Now()}
	if d.checker != nil {
		in.Unusual = d.checker.Brief().Unusual
	}
	if drain := d.drained.State(); drain != nil {
		in.Drained = drain.Since
	}
	c := d.setup().Config.ForAnnounce()
	before := a.memory
	a.last = announce.Decide(c, in, a.memory)
	a.memory, a.before = a.last.Memory, &before
	if c.Mode == announce.VRRP {
		a.number.load(d.setup().Config.Announce.File, in.Now.Add(c.HoldUp))
		if in.Now.Before(a.number.rises) && (a.last.Wake.IsZero() || a.number.rises.Before(a.last.Wake)) {
			a.last.Wake = a.number.rises
		}
	}
	return a.last
}

// number is what announce.file has in mode vrrp.
type number struct {
	file  string // that was read
	known bool
	is    int
	rises time.Time // not before: after a start no health check has a result yet
}

// load reads the number that an earlier run left. It may rise only after a time.
func (n *number) load(file string, rises time.Time) {
	if file == n.file {
		return
	}
	*n = number{file: file}
	text, err := os.ReadFile(file)
	if err == nil {
		n.is, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if n.known = err == nil; n.known {
		n.rises = rises
	}
}

// keeps reports whether the file keeps its number instead of a next one. It may always fall, and a drain, or the end of
// one, counts at once. While a table may be missing (hold), or soon after a start, it does not rise.
func (n *number) keeps(next int, hold bool, now time.Time) bool {
	return n.known && n.is != announce.PriorityWithdrawn && next > n.is && (hold || now.Before(n.rises))
}

// synced writes announce.file if its content differs. While a table may be missing the list of VIPs stays: it would lose
// some. The number of mode vrrp may fall, see number.keeps.
func (a *announcer) synced(now *proxy.Snapshot) {
	if a == nil {
		return
	}
	a.remember(&now.Report)
	for _, v := range now.Announced {
		if !v.Announced {
			a.departs.Withdrawn(v.Addr, time.Now())
		}
	}
	a.runs(now)
	c, hold := a.daemon.setup().Config.Announce, len(now.Report.Waiting) > 0
	a.leave(c)
	if c.Mode != announce.Off && c.File != "" {
		a.wrote = c // by this run or an earlier one
	}
	switch {
	case c.Mode == announce.VRRP && a.daemon.drained.State() != nil: // also if there was no decision: the kernel may be unreadable
		a.last.Priority = announce.PriorityWithdrawn
		a.number.known, a.number.is = true, a.last.Priority
	case now.Frontends == nil:
		return
	case c.Mode == announce.VRRP:
		if a.number.keeps(a.last.Priority, hold, time.Now()) {
			return
		}
		a.number.known, a.number.is = true, a.last.Priority
	case hold:
		return
	}
	publish := func() error { return nil }
	if c.Mode != announce.Off && c.File != "" {
		d := a.last
		d.VIPs = now.Announced
		text := []byte(d.File(c.Mode))
		publish = func() error {
			if err := statefile.Publish(c.File, text); err != nil {
				return fmt.Errorf("routing daemons that read it do not know what is served: %w", err)
			}
			return nil
		}
	}
	_ = a.daemon.keeper.Do(announceFile, publish) // the Keeper says the error
}

// remember corrects what is remembered after a sync that did not carry out its whole plan: what the kernel lacked was not
// tried, so that it lacks it again says nothing.
func (a *announcer) remember(r *proxy.Report) {
	var failed *kernel.ApplyError
	switch {
	case r.Left > 0:
		a.memory = a.memory.Untried()
	case a.before != nil && r.Err != nil && !errors.As(r.Err, &failed):
		a.memory = a.memory.NotTried(*a.before)
	}
	a.before = nil
}

// leave withdraws a file that the configuration does not name any more: no process would update it.
func (a *announcer) leave(c config.Announce) {
	if a.wrote.File == "" || c.Mode != announce.Off && c.File == a.wrote.File {
		return
	}
	if err := WithdrawFile(a.wrote); err != nil {
		a.daemon.log.Error("a routing daemon that reads the former announce.file still finds the node good in it", "err", err)
	}
	a.wrote = config.Announce{}
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
