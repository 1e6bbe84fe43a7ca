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
	missing bool // a table is
	starts  announce.Starts
	last    announce.Decision
	read    string          // announce.file that was read, mode vrrp
	wrote   config.Announce // which announce.file was written last
}

// Keep keeps VIPs that were removed until routers know.
func (a *announcer) Keep(m sources.Merged, have *kernel.Observed) sources.Merged {
	c := a.daemon.setup().Config.ForAnnounce()
	a.missing = len(m.Missing) > 0
	m, a.memory = announce.Keep(&c, a.memory, m, have.Announcements, time.Now())
	return m
}

// Announce decides which VIPs are announced now.
func (a *announcer) Announce(
	f *frontend.Frontends, want *kernel.State, have *kernel.Observed, heard kernel.Now,
) (announce.Decision, time.Time) {
	s, now := a.daemon.setup(), time.Now()
	in := announce.Input{
		Frontends: f, Want: want, Have: have, Probed: heard.Probed, Taken: heard.Taken,
		Missing: a.missing, WhyNot: s.mode().WhyNot, Starts: a.starts,
	}
	if drain := a.daemon.drained.State(); drain != nil {
		in.Drained = drain.Since
	}
	c := s.Config.ForAnnounce()
	if c.Mode == announce.VRRP && s.Config.Announce.File != a.read {
		a.read = s.Config.Announce.File
		number, known := numberIn(a.read)
		a.memory = a.memory.Told(number, known, now.Add(c.HoldUp))
	}
	var wake time.Time
	a.last, a.memory, wake = announce.Step(c, a.memory, in, now)
	return a.last, wake
}

// numberIn reads the number that an earlier run left for keepalived.
func numberIn(file string) (number int, known bool) {
	text, err := os.ReadFile(file)
	if err == nil {
		number, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	return number, err == nil
}

// synced writes announce.file if its content differs. While a table may be missing the list of VIPs stays: it
// would lose some.
func (a *announcer) synced(now *proxy.Snapshot) {
	if a == nil {
		return
	}
	var failed *kernel.ApplyError
	r := &now.Report
	carriedOut := r.Left == 0 && (r.Err == nil || errors.As(r.Err, &failed))
	a.memory = a.memory.Ended(carriedOut, now.Announced, time.Now())
	a.runs(now)
	c := a.daemon.setup().Config.Announce
	a.leave(c)
	publish := func() error { return nil }
	if c.Mode != announce.Off && c.File != "" {
		a.wrote = c // by this run or an earlier one
		d := a.last
		d.VIPs = now.Announced
		switch {
		case c.Mode == announce.VRRP && a.daemon.drained.State() != nil:
			d.Priority = announce.PriorityWithdrawn // also if there was no decision: the kernel may be unreadable
		case now.Frontends == nil, c.Mode == announce.Routes && len(r.Waiting) > 0:
			return
		}
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

// leave withdraws a file that the configuration does not name any more: no process would update it.
func (a *announcer) leave(c config.Announce) {
	if a.wrote.File == "" || c.Mode != announce.Off && c.File == a.wrote.File {
		return
	}
	if err := WithdrawFile(a.wrote); err != nil {
		a.daemon.log.Error("cannot withdraw the former announce.file: its readers still send clients here", "err", err)
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
		a.daemon.log.Warn("cannot reset the count of crashes: the next ones may withdraw VIPs too early", "err", err)
	}
}
