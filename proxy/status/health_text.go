package status

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/sources"
)

// text says how many of the group's endpoints are up: "0 of 3 up, fail open".
func (g *HealthGroup) text() string { return fmt.Sprintf("%d of %d up, %s", g.Up, g.Of, g.Mode) }

// long names the group and says how it is: "port 80, IPv4: 0 of 3 up, fail open: ...".
func (g *HealthGroup) long() string {
	port := cmp.Or(g.Port, strconv.Itoa(int(g.Number)))
	return fmt.Sprintf("port %s, %s: %s: %s", port, g.Family, g.text(), g.Mode.Meaning())
}

// panics says which group is in panic; "" if none is.
func (h *ServiceHealth) panics() string {
	if h == nil {
		return ""
	}
	for i := range h.Groups {
		if g := &h.Groups[i]; g.Mode.panics() && g.Port != "" {
			return "port " + g.Port + ": " + g.text()
		} else if g.Mode.panics() {
			return g.text()
		}
	}
	return ""
}

// Panics reports whether endpoints of the service that are down serve.
func (h *ServiceHealth) Panics() bool { return h.panics() != "" }

// panics reports whether endpoints that are down serve.
func (m HealthMode) panics() bool {
	for _, mode := range health.Modes() {
		if mode.String() == string(m) {
			return mode.Panic()
		}
	}
	return false
}

// Cell is the health of a service in few words: "2/3 up, 1 out".
func (h *ServiceHealth) Cell() screen.Cell {
	if h == nil {
		return text("-")
	}
	var words []string
	style := screen.Good
	if h.Checked > 0 {
		words = append(words, fmt.Sprintf("%d/%d up", h.Up, h.Checked))
	}
	if h.Held > 0 {
		words = append(words, fmt.Sprintf("%d held", h.Held))
	}
	if h.Out > 0 {
		words = append(words, fmt.Sprintf("%d out", h.Out))
	}
	if h.Down > 0 || h.Held > 0 || h.Out > 0 {
		style = screen.Warn
	}
	if len(h.Groups) > 0 {
		words = append(words, string(h.Groups[0].Mode))
		style = h.Groups[0].Mode.Style()
	}
	if len(words) == 0 {
		return text("-")
	}
	return screen.Cell{Text: strings.Join(words, ", "), Style: style}
}

// Trouble reports whether not all of a service's endpoints are up, or the operator took one out.
func (h *ServiceHealth) Trouble() bool {
	return h != nil && (h.Down > 0 || h.Held > 0 || h.Out > 0 || len(h.Groups) > 0)
}

// Cell is the health of an endpoint in few words: "down 12s: refused".
func (h *EndpointHealth) Cell() screen.Cell {
	switch {
	case h == nil:
		return text("-")
	case h.Cause == "serves" && (h.Flapping || h.State != "up"):
		return screen.Cell{Text: h.Text, Style: h.State.Style()}
	}
	return screen.Cell{Text: h.Text, Style: h.Cause.Style()}
}

// Up reports whether the endpoint is up by its probes.
func (h *EndpointHealth) Up() bool {
	return h.State == HealthState(health.Up.String()) || h.State == HealthState(health.Failing.String())
}

// Down reports whether its probes say that the endpoint does not answer.
func (h *EndpointHealth) Down() bool {
	return h.State == HealthState(health.Down.String()) || h.State == HealthState(health.Recovering.String())
}

// serves reports whether health and orders let the endpoint have connections.
func (h *EndpointHealth) serves() bool {
	return h.Cause == HealthCause(health.Serves.String()) || h.Cause == HealthCause(health.Spared.String())
}

// short says why the endpoint has its weight, without a time: "down: refused".
func (h *EndpointHealth) short() string {
	text := string(h.Cause)
	switch o := h.Override; {
	case h.Cause == HealthCause(health.ByFile.String()):
		return "weight 0 or not ready"
	case h.Cause == HealthCause(health.IsDown.String()) && h.Reason != "":
		text += ": " + h.Reason
	case o != nil && o.By != "":
		text += " by " + o.By
	}
	return text
}

// line names the order: `10.2.1.10 drained by root: "kernel upgrade"`.
func (o *Override) line() string {
	text := o.Target + " " + map[health.Verb]string{health.Drain: "drained", health.Disable: "disabled",
		health.Reweigh: "weight " + o.Weight}[health.Verb(o.Verb)]
	if o.By != "" {
		text += " by " + o.By
	}
	if o.Why != "" {
		text += fmt.Sprintf(": %q", o.Why)
	}
	return text
}

// maxOverrideLines bounds the orders in the overview.
const maxOverrideLines = 10

// overrides are the operator's orders in words.
func (p *page) overrides() []string {
	var lines []string
	if d := p.st.Daemon.Drain; d != nil {
		lines = append(lines, fmt.Sprintf("this node %s (%s ago): its health answers are 503", d, p.ago(d.Since)))
	}
	if p.st.Health == nil {
		return lines
	}
	list := p.st.Health.Overrides
	for i := range list {
		if i == maxOverrideLines-1 && len(list) > maxOverrideLines {
			return append(lines, fmt.Sprintf("and %d more", len(list)-i))
		}
		o := &list[i]
		when := p.ago(o.Since) + " ago"
		if !o.Until.IsZero() {
			when += ", " + screen.Age(o.Until.Sub(p.st.Time)) + " left"
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", o.line(), when))
	}
	return lines
}

// health counts the targets in one line; "" if nothing is probed.
func (p *page) health() string {
	h := p.st.Health
	if h == nil || h.Targets == 0 {
		return ""
	}
	n := func(states ...health.Phase) (sum int) {
		for _, s := range states {
			sum += h.States[HealthState(s.String())]
		}
		return sum
	}
	text := fmt.Sprintf("health checks: %d of %s up", n(health.Up, health.Failing), sources.Count(h.Targets, "target"))
	if down := n(health.Down, health.Recovering); down > 0 {
		text += fmt.Sprintf(", %d down", down)
	}
	if unknown := n(health.Unknown); unknown > 0 {
		text += fmt.Sprintf(", %d without a result", unknown)
	}
	if h.Probes.Started > 0 {
		text += fmt.Sprintf("; 99 %% of probes start within %s", time.Duration(h.Probes.LateSeconds*float64(time.Second)))
	}
	return text
}

// still is the health without what changes all the time: times, and results that agree with the last one.
func (h *EndpointHealth) still() *EndpointHealth {
	if h == nil {
		return nil
	}
	s := *h
	s.Text, s.Last, s.Next, s.Void, s.Blind, s.Days = h.short(), nil, time.Time{}, 0, "", nil
	if h.serves() {
		s.Text = string(h.State)
	}
	return &s
}

// still is the health without what changes all the time.
func (h *Health) still() *Health {
	if h == nil {
		return nil
	}
	s := *h
	s.Probes = Probes{}
	return &s
}
