package checker

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// overlay is what Overlay keeps from one call to the next.
type overlay struct {
	checks  sources.Checks
	known   health.Known
	cache   health.Cache
	settled bool // the kernel's states of a complete table were taken over

	merged   sources.Table // of the last call
	settings Settings
	table    sources.Table // merged, with the node's defaults
	out      sources.Table // with the weights
	plain    bool          // which are those of the sources
}

// served is what Overlay returned last.
type served struct {
	table   sources.Table // before the overlay, with the node's defaults
	ramps   health.Ramps
	unusual []health.Unusual
	missing bool // a source has not delivered its table
}

// Overlay returns the table with the weights that follow from health and orders, and with the Delta from the last
// table that it returned. wake is when the result changes by itself; zero = never. The loop's goroutine calls it for
// each merged table. Until all tables were there once, endpoints that are new start with the state that the kernel has
// of them: see health.FromKernel.
func (c *Checker) Overlay(m sources.Merged, have *kernel.Observed) (out sources.Merged, wake time.Time) {
	o := &c.overlay
	c.mu.Lock()
	settings, orders := c.settings, c.orders.Overrides
	o.known.Silent = c.silent
	c.mu.Unlock()
	fresh := o.resolve(m.Table, settings)
	c.mu.Lock()
	c.next = o.table
	c.mu.Unlock()
	switch {
	case !o.settled:
		initial := fromKernel(o.table, orders, c.agents.before, have)
		c.since.before.In(initial)
		c.follow(o.table, initial)
		if o.settled = !m.Keeps; o.settled {
			c.mu.Lock()
			c.agents.before, c.since.before = nil, nil // each has its target, or none
			c.mu.Unlock()
		}
	case fresh:
		if initial := c.inherited(o.table); initial != nil {
			c.follow(o.table, initial) // before the weights are computed
			break
		}
		defer signal(c.tables) // the loop does not wait for it
	}
	c.mu.Lock()
	events := c.fresh
	c.fresh = nil
	c.mu.Unlock()
	changed := o.known.Verdicts.Apply(events)
	o.known.Overrides = orders
	result := o.cache.Overlay(o.table, o.known, changed, time.Now())
	result.Table.Lists = m.Lists // they may be newer than the services
	m.Delta = o.delta(m.Delta, result.Table)
	m.Table = result.Table
	c.mu.Lock()
	c.served = served{table: o.table, ramps: o.cache.Ramps(), unusual: result.Unusual, missing: len(m.Missing) > 0}
	c.mu.Unlock()
	return m, result.Wake
}

// resolve fills in the node's defaults in the health checks of a table. It reports whether table or defaults are new.
func (o *overlay) resolve(merged sources.Table, s Settings) bool {
	if o.settled && sameServices(o.merged, merged) && o.settings == s {
		return false
	}
	o.merged, o.settings = merged, s
	o.table = o.checks.OnNode(merged, s.Defaults, s.Scheduler)
	return true
}

// delta returns what differs between the last table that was served and this one. Where neither this time nor the
// last one any weight differs from those of the sources, it is what differs between the merged tables.
func (o *overlay) delta(merged sources.Delta, out sources.Table) sources.Delta {
	plain, was := sameServices(out, o.merged), o.plain
	before := o.out
	o.out, o.plain = out, plain
	if plain && was {
		return merged
	}
	return sources.Compare(before, out)
}

// sameServices reports whether two tables share their memory.
func sameServices(a, b sources.Table) bool {
	return a.Services.Same(b.Services)
}

// AtStart returns the table as a svcproxy serves it that starts now, with the kernel and what stateDir keeps as they
// are.
func AtStart(t sources.Table, s Settings, kept Kept, have *kernel.Observed, now time.Time) sources.Table {
	t = new(sources.Checks).OnNode(t, s.Defaults, s.Scheduler)
	var board health.Board
	board.SetTargets(health.Targets(t), fromKernel(t, kept.Orders, kept.Agents, have), now)
	return health.Overlay(t, health.Known{Verdicts: board.Verdicts(), Overrides: kept.Orders}, now).Table
}

// fromKernel returns the verdicts that targets start with, see health.FromKernel. After a change of mode a
// virtual server that only keeps its connections may be beside rules: then the rules say who is up.
func fromKernel(t sources.Table, orders health.Overrides, agents health.Agents,
	have *kernel.Observed) map[health.Key]health.Verdict {
	virtuals, reals := plan.Translated(have)
	return health.FromKernel(t, orders, agents, slices.Concat(have.Virtuals, virtuals), have.Reals.With(nil, reals))
}
