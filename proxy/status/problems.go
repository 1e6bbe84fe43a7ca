package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/sources"
)

// problem is a reason why a status is degraded, and what mends it.
type problem struct{ text, mend string }

// found lists why a status is degraded, the worst first.
func (st *Status) found() (list []problem) {
	add := func(mend, format string, args ...any) {
		list = append(list, problem{fmt.Sprintf(format, args...), mend})
	}
	st.syncProblems(add)
	switch text, available := st.Daemon.SteppedDown(), st.Daemon.AvailableMode; {
	case text != "" && available != "":
		add("systemctl restart svcproxy", "%s; %s could be used now: restart svcproxy, or set mode = %q", text, available,
			st.Daemon.Mode)
	case text != "":
		add("do that, then systemctl restart svcproxy", "%s; restart svcproxy after that, or set mode = %q", text,
			st.Daemon.Mode)
	}
	if st.Totals.Barred > 0 {
		add(BarredMend(st.Daemon.Mode), "%s", Barred)
	}
	for _, line := range ConditionLines(st.Conditions) {
		add("", "%s", line)
	}
	healthProblems(st, add)
	if c := st.Daemon.Config; c.Error != "" {
		add("correct it there, then svcproxy reload --wait", "the last good configuration is in use%s: %s", since(c.Since),
			c.Error)
	}
	sourceProblems(st, add)
	for _, c := range st.Conflicts {
		add("stop the other program or host, or take the address out of the service", "conflict: %s", c.Text)
	}
	const change = "change this service, or the other one or the node's configuration that is named"
	for i := range st.Services {
		switch s := &st.Services[i]; {
		case s.State == LeftOut:
			add(change, "%s is left out: %s", s.Name, s.Reason)
		case len(s.Withheld) > 0:
			add(change, "%s is left out in part: %s", s.Name, strings.Join(s.Withheld, "; "))
		}
	}
	return list
}

// BarredMend says what to do about Barred in a mode.
func BarredMend(mode string) string {
	text := "accept these packets there, before the rule or the policy"
	if mode == sources.ModeNFTables {
		text += `; if it is FORWARD of iptables, mode = "iptables" does that`
	}
	return text
}

// Barred is the problem that Status.Warnings begins with lines about: the first Totals.Barred.
const Barred = "rules or policies of other programs' firewalls keep clients away"

func since(t time.Time) string { return " (since " + t.Format(time.RFC3339) + ")" }

// problems are the texts of found.
func problems(st *Status) []string {
	list := []string{}
	for _, p := range st.found() {
		list = append(list, p.text)
	}
	return list
}

// Mends returns what mends each of Problems. A sync that takes long is not there, since it mends itself.
func (st *Status) Mends() map[string]string {
	mends := map[string]string{}
	for _, p := range st.found() {
		if p.mend != "" {
			mends[p.text] = p.mend
		}
	}
	return mends
}

// syncProblems adds what is wrong between the last sync and the kernel.
func (st *Status) syncProblems(add func(mend, format string, args ...any)) {
	const again = "svcproxy reload --wait"
	if !st.Healthy {
		add("systemctl restart svcproxy, unless a sync fails: then correct that",
			"changes have waited to be programmed for more than twice the sync period")
	}
	switch {
	case len(st.Faults) > 0: // they say which
		add(fmt.Sprintf("correct the cause (%s: %s), then %s", st.Faults[0].Op, st.Faults[0].Error, again),
			"the kernel refuses %s%s", sources.Count(st.Totals.Faults, "object"), since(st.Sync.Since))
	case st.Sync.Error != "":
		add("correct that, then "+again, "the last sync failed: %s%s", st.Sync.Error, since(st.Sync.Since))
	case st.Sync.Cause == "":
		add("wait for it; journalctl -u svcproxy shows what it does",
			"nothing was programmed yet: the first sync is not over")
	}
	if r := st.Sync.Running; r != nil && r.long {
		add("", "%s", r.Text)
	}
	if n := st.Totals.Missing; n > 0 {
		i := slices.IndexFunc(st.Services, func(s Service) bool { return s.State == Missing })
		add(again, "the kernel lacks something of %s, first %s: %s", sources.Count(n, "service"), st.Services[i].Name,
			st.Services[i].Reason)
	}
}

// sourceProblems adds what sources of services do not deliver.
func sourceProblems(st *Status, add func(mend, format string, args ...any)) {
	for _, s := range st.Sources {
		if !s.Delivered {
			how := ""
			if s.Progress != "" {
				how = ", " + s.Progress
			}
			add("wait, or correct what its errors name", "%s%s: nothing is removed until then",
				sources.WordsFor(s.Name).Waiting, how)
		}
		for _, e := range s.Errors {
			if strings.Contains(st.Daemon.Config.Error, e) {
				continue // the configuration file has services, so this source has its error, too
			}
			add("correct it there; svcproxy check reads it as svcproxy does", "%s%s", sources.Complaint(s.Name, e),
				since(s.Since))
		}
	}
}

// ConditionLines are the lines of problems that are about conditions.
func ConditionLines(list []condition.Condition) []string {
	return condition.Lines(list, func(c condition.Condition) string {
		return fmt.Sprintf("%s (since %s): %s", c, c.Since.Format(time.RFC3339), c.Hint)
	})
}

// healthProblems adds what health checks find wrong with more than one endpoint.
func healthProblems(st *Status, add func(mend, format string, args ...any)) {
	h := st.Health
	if h == nil {
		return
	}
	if h.Blind != "" {
		add("correct that on this node", "health checks tell nothing at present, so the last states count: %s", h.Blind)
	}
	if !h.Held.IsZero() {
		add("start the endpoints, or mend the network to them; else they are down then",
			"more than half of all targets went down at once: their last states count until %s", h.Held.Format(time.RFC3339))
	}
	if h.Panic > 0 {
		i := slices.IndexFunc(st.Services, func(s Service) bool { return s.Health.Panics() })
		add("start endpoints of "+st.Services[i].Name+"; svcproxy health "+st.Services[i].Name+" says why they are down",
			"%s in panic, first %s: %s", sources.Count(h.Panic, "service"), st.Services[i].Name,
			st.Services[i].Health.panics())
	}
}

// maxDown bounds Status.Down, without a last line that counts the others.
const maxDown = 10

// downLines names the endpoints that are down: "web 10.2.1.10:8080: refused (since 2026-01-02T15:04:05Z)".
func downLines(services []Service) []string {
	lines, more := []string{}, 0
	for i := range services {
		s := &services[i]
		if s.Health == nil || s.Health.Down == 0 {
			continue
		}
		for j := range s.Endpoints {
			switch h := s.Endpoints[j].Health; {
			case h == nil || h.Held || !h.Down():
			case len(lines) == maxDown:
				more++
			default:
				lines = append(lines, fmt.Sprintf("%s %s: %s", s.Name, s.Endpoints[j].place(), h.down()))
			}
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: svcproxy health", more))
	}
	return lines
}

// down says since when and why an endpoint is down. Since is unknown where the state is the kernel's.
func (h *EndpointHealth) down() string {
	text := cmp.Or(h.Reason, "down")
	if !h.Since.IsZero() {
		text += " (since " + h.Since.UTC().Format(time.RFC3339) + ")"
	}
	return text
}
