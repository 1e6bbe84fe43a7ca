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

// problems lists why a status is degraded, the worst first.
func problems(st *Status) []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	since := func(t time.Time) string { return " (since " + t.Format(time.RFC3339) + ")" }
	if !st.Healthy {
		add("changes have waited to be programmed for more than twice the sync period")
	}
	switch {
	case len(st.Faults) > 0:
		add("the kernel refuses %s%s", sources.Count(st.Totals.Faults, "object"), since(st.Sync.Since)) // Faults say which
	case st.Sync.Error != "":
		add("the last sync failed: %s%s", st.Sync.Error, since(st.Sync.Since))
	case st.Sync.Cause == "":
		add("nothing was programmed yet: the first sync is not over")
	}
	if r := st.Sync.Running; r != nil && r.long {
		add("%s", r.Text)
	}
	if n := st.Totals.Missing; n > 0 {
		i := slices.IndexFunc(st.Services, func(s Service) bool { return s.State == Missing })
		add("the kernel lacks something of %s, first %s: %s", sources.Count(n, "service"), st.Services[i].Name,
			st.Services[i].Reason)
	}
	switch text, available := st.Daemon.SteppedDown(), st.Daemon.AvailableMode; {
	case text != "" && available != "":
		add("%s; %s could be used now: restart svcproxy, or set mode = %q", text, available, st.Daemon.Mode)
	case text != "":
		add("%s; restart svcproxy after that, or set mode = %q", text, st.Daemon.Mode)
	}
	for _, line := range ConditionLines(st.Conditions) {
		add("%s", line)
	}
	healthProblems(st, add)
	if c := st.Daemon.Config; c.Error != "" {
		add("the last good configuration is in use%s: %s", since(c.Since), c.Error)
	}
	for _, s := range st.Sources {
		if !s.Delivered {
			how := ""
			if s.Progress != "" {
				how = ", " + s.Progress
			}
			add("%s%s: nothing is removed until then", sources.WordsFor(s.Name).Waiting, how)
		}
		for _, e := range s.Errors {
			if strings.Contains(st.Daemon.Config.Error, e) {
				continue // the configuration file has services, so this source has its error, too
			}
			add("%s%s", sources.Complaint(s.Name, e), since(s.Since))
		}
	}
	for _, c := range st.Conflicts {
		add("conflict: %s", c.Text)
	}
	for i := range st.Services {
		switch s := &st.Services[i]; {
		case s.State == LeftOut:
			add("%s is left out: %s", s.Name, s.Reason)
		case len(s.Withheld) > 0:
			add("%s is left out in part: %s", s.Name, strings.Join(s.Withheld, "; "))
		}
	}
	return list
}

// ConditionLines are the lines of problems that are about conditions.
func ConditionLines(list []condition.Condition) []string {
	return condition.Lines(list, func(c condition.Condition) string {
		return fmt.Sprintf("%s (since %s): %s", c, c.Since.Format(time.RFC3339), c.Hint)
	})
}

// healthProblems adds what health checks find wrong with more than one endpoint.
func healthProblems(st *Status, add func(format string, args ...any)) {
	h := st.Health
	if h == nil {
		return
	}
	if h.Blind != "" {
		add("health checks tell nothing at present, so the last states count: %s", h.Blind)
	}
	if !h.Held.IsZero() {
		add("more than half of all targets went down at once: their last states count until %s", h.Held.Format(time.RFC3339))
	}
	if h.Panic > 0 {
		i := slices.IndexFunc(st.Services, func(s Service) bool { return s.Health.Panics() })
		add("%s in panic, first %s: %s", sources.Count(h.Panic, "service"), st.Services[i].Name,
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
				lines = append(lines, fmt.Sprintf("%s %s: %s", s.Name, s.Endpoints[j].Address, h.down()))
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
