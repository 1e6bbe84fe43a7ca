package checker

import (
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
)

// View returns a copy of what is known now.
func (c *Checker) View() health.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.brief()
	v.Known.Verdicts = c.board.Verdicts()
	return v
}

// Brief returns a View without verdicts: these are most of its cost.
func (c *Checker) Brief() health.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.brief()
}

// brief is Brief. The lock is held.
func (c *Checker) brief() health.View {
	s := c.runner.Stats()
	return health.View{
		Now:   time.Now(),
		Known: health.Known{Overrides: c.orders.Overrides, Ramps: c.served.ramps, Silent: c.silent},
		Table: c.served.table, Unusual: slices.Clone(c.served.unusual), Blind: c.board.Blind(), Holding: c.board.Holding(),
		Probes: health.Probes{
			Started: s.Started, Void: s.Void, InFlight: s.InFlight, LateMax: s.LateMax, Late99: s.LateQuantile(0.99),
			Overdue: s.Overdue, OverdueSince: s.OverdueSince,
		},
	}
}

// Stats returns the figures of the probes.
func (c *Checker) Stats() probe.Stats { return c.runner.Stats() }

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
