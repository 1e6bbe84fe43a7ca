package daemon

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/sources"
)

// lateness is how late probes started.
func (c *console) lateness() metrics.Lateness {
	if c.checker == nil {
		return metrics.Lateness{}
	}
	s := c.checker.Stats()
	return metrics.Lateness{Probes: s.Started, Sum: s.LateSum, Bounds: probe.LateBounds(), Counts: s.Late[:]}
}

// outcomes are all results that probes can have.
func outcomes() []string {
	var list []string
	for _, o := range probe.Outcomes() {
		list = append(list, o.String())
	}
	return list
}

// observeHealth registers everything that follows the health checks.
func (c *console) observeHealth() {
	c.reader.Health, c.reader.Due, c.notify.probes = c.checker.View, c.checker.Due, c.checker.Alive
	c.health = &events.Health{Ring: &c.ring, Log: c.log, Table: func() sources.Table {
		return c.checker.Brief().Table
	}, Users: c.checker.ServicesOf}
	c.checker.Probed = func(of sources.CheckType, r probe.Result) {
		c.metrics.Probed(of, r.Outcome.String(), r.Void(), r.Duration)
	}
	c.checker.Noticed = func(list []health.Event) {
		c.health.Noticed(list)
		c.metrics.Noticed(list)
		c.notify.update()
	}
}

// otherRules has the chains in the other back end of iptables that a plan could not remove. A sync that
// failed before its plan knows nothing of them.
func (c *console) otherRules(r proxy.Report) {
	if !r.Read {
		return
	}
	others := r.Plan.Others
	lines := kernel.OtherLines(others)
	list := make([]condition.Condition, len(lines))
	for i, tool := range kernel.OtherTools(others) {
		list[i] = condition.Condition{Subject: tool, Text: lines[i]}
	}
	c.conditions.SetAll(condition.OtherRules, list)
}

// follow has an event and a line of the log for each condition that begins or ends.
func (c *console) follow(now condition.Condition, began bool) {
	e := events.OfCondition(now, began)
	c.ring.Add(e)
	if began {
		c.log.Warn(e.Text)
	} else {
		c.log.Info("no longer: " + e.Text)
	}
	c.notify.update()
}

// degraded is what is wrong, in short lines.
func (c *console) degraded() []string {
	return append(c.proxy.Degraded(), c.wrong()...)
}

// wrong is what is wrong apart from the loop and its sources, in short lines.
func (c *console) wrong() []string {
	var lines []string
	if text := c.about.SteppedDown(); text != "" {
		lines = append(lines, text)
	}
	lines = append(lines, condition.Lines(c.conditions.List(), condition.Condition.String)...)
	if c.checker != nil {
		lines = append(lines, healthLines(c.checker.Brief())...)
	}
	return lines
}

// healthLines says what health checks find wrong with more than one endpoint.
func healthLines(v health.View) []string {
	var lines []string
	if v.Blind != "" {
		lines = append(lines, "health checks tell nothing: "+v.Blind)
	}
	if !v.Holding.IsZero() {
		lines = append(lines, "more than half of all targets went down at once: the last states count until "+
			v.Holding.Format(clock))
	}
	first, n := "", 0
	for i, u := range v.Unusual {
		switch { // the groups of a service follow each other
		case !u.Mode.Panic() || i > 0 && v.Unusual[i-1].Service == u.Service && v.Unusual[i-1].Mode.Panic():
			continue
		case n == 0:
			first = fmt.Sprintf("%s (%d of %d up)", v.Table.Services.At(u.Service).DisplayName(), u.Up, u.Of)
		}
		n++
	}
	if n > 0 {
		lines = append(lines, fmt.Sprintf("%s in panic, first %s", sources.Count(n, "service"), first))
	}
	return lines
}
