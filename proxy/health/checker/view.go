package checker

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// View is what is known at one time.
type View struct {
	Now   time.Time
	Known health.Known
	// Table is the table that is served, as its sources have it and with the node's defaults in its health checks.
	Table   sources.Table
	Unusual []health.Unusual // indexes in Table
	Blind   string           // why the checker is blind; "" = it is not
	Holding time.Time        // until when a mass failure is held; zero = there is none
	Stats   probe.Stats
}

// View returns a copy of what is known now.
func (c *Checker) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.brief()
	v.Known.Verdicts = c.board.Verdicts()
	return v
}

// Brief returns a View without verdicts: these are most of its cost.
func (c *Checker) Brief() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brief()
}

// brief is Brief. The lock is held.
func (c *Checker) brief() View {
	return View{
		Now:   time.Now(),
		Known: health.Known{Overrides: c.orders.Overrides, Ramps: c.served.ramps},
		Table: c.served.table, Unusual: slices.Clone(c.served.unusual), Blind: c.board.Blind(), Holding: c.board.Holding(), Stats: c.runner.Stats(),
	}
}

// Due returns when a target is probed next; false if it is not probed, or if its probe runs.
func (c *Checker) Due(k health.Key) (time.Time, bool) {
	c.mu.Lock()
	x := c.targets[k]
	c.mu.Unlock()
	if x == nil {
		return time.Time{}, false
	}
	return c.runner.Due(&x.runs)
}

// ServicesOf names the services that use any of some targets, sorted.
func (c *Checker) ServicesOf(keys ...health.Key) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.board.ServicesOf(c.followed, keys...)
}
