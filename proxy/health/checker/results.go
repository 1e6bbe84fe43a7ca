package checker

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// maxFresh is how many events wait for Overlay at most before it is asked for: those of 25,000 first results would take
// 19 MB.
const maxFresh = 1000

// record takes a result of the runner, and returns when the target is probed next.
func (c *Checker) record(t *probe.Target, r probe.Result) probe.Next {
	of := t.Owner.(*target)
	if c.Probed != nil {
		c.Probed(t.Probe.Type, r)
	}
	now := time.Now()
	c.mu.Lock()
	said := c.board.Said(of.key)
	events := c.board.Record(of.key, resultOf(t.Probe.Type, r, now))
	c.heard(said, c.board.Said(of.key), now)
	after, down := c.board.Next(of.key)
	c.note(events)
	many, waited := len(c.fresh) >= maxFresh, of.waited
	c.mu.Unlock()
	changes := func(e health.Event) bool {
		return waited || e.Kind != health.WentUp || !e.First() || e.AsksForShare() // else it counted as up before
	}
	if many || slices.ContainsFunc(events, changes) {
		c.Wake()
	}
	return probe.Next{After: after, Down: down}
}

// resultOf returns a result of a check of some type as package health takes it.
func resultOf(of sources.CheckType, r probe.Result, now time.Time) health.Result {
	h := health.Result{Good: r.Outcome == probe.OK, Void: r.Void(), At: now, Took: r.Duration, Expires: r.Expires,
		Warning: r.Warning}
	if h.Reason = r.String(); h.Good {
		h.Reason = r.Detail
	}
	if r.Unsent { // the Board decides whether it is void
		h.Unsent, h.Void, h.Reason = true, false, r.Detail
	}
	switch {
	case of == sources.CheckAgent:
		h.Agent, h.Words = r.Outcome == probe.OK || r.Outcome == probe.Agent, words(r)
	case r.HasPercent && r.Percent <= 0:
		h.Ask = health.AskDrain
	case r.HasPercent:
		h.Percent = uint16(r.Percent)
	}
	return h
}

// words returns what an agent's answer says.
func words(r probe.Result) health.Words {
	return health.Words{
		Up: r.Speaks && r.Outcome == probe.OK, Down: r.Speaks && r.Outcome == probe.Agent,
		Ask:     map[probe.Verdict]health.Ask{probe.Drain: health.AskDrain, probe.Maint: health.AskMaint}[r.Verdict],
		Asks:    r.Verdict != probe.NoVerdict,
		Percent: uint16(r.Percent), HasPercent: r.HasPercent,
	}
}
