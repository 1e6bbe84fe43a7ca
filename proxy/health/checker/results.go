package checker

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
)

// maxFresh is how many events wait for Overlay at most before it is asked for: those of 25,000 first results would take
// 19 MB.
const maxFresh = 1000

// record takes a result of the runner, and returns when the target is probed next.
func (c *Checker) record(t *probe.Target, r probe.Result) time.Duration {
	of := t.Owner.(*target)
	if c.Probed != nil {
		c.Probed(t.Probe.Type, r)
	}
	c.mu.Lock()
	events := c.board.Record(of.key, resultOf(r, time.Now()))
	next, _ := c.board.Next(of.key)
	c.note(events)
	many, waited := len(c.fresh) >= maxFresh, of.waited
	c.mu.Unlock()
	changes := func(e health.Event) bool {
		return waited || e.Kind != health.WentUp || !e.First() || e.AsksForShare() // else it counted as up before
	}
	if many || slices.ContainsFunc(events, changes) {
		c.Wake()
	}
	return next
}

// resultOf returns a result as package health takes it.
func resultOf(r probe.Result, now time.Time) health.Result {
	h := health.Result{Good: r.Outcome == probe.OK, Void: r.Void(), At: now, Took: r.Duration, Expires: r.Expires}
	if h.Reason = r.String(); h.Good {
		h.Reason = r.Detail
	}
	switch {
	case r.Verdict == probe.Drain, r.HasPercent && r.Percent <= 0:
		h.Ask = health.AskDrain
	case r.Verdict == probe.Maint:
		h.Ask = health.AskMaint
	case r.HasPercent:
		h.Percent = uint16(r.Percent)
	}
	return h
}
