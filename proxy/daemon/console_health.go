package daemon

import (
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// probeStats is what the health checks have done.
func (c *console) probeStats() probe.Stats {
	if c.checker == nil {
		return probe.Stats{}
	}
	return c.checker.Stats()
}

// observeHealth registers everything that follows the health checks.
func (c *console) observeHealth() {
	c.reader.Health, c.reader.Due, c.notify.probes = c.checker.View, c.checker.Due, c.checker.Alive
	c.health = &events.Health{Ring: &c.ring, Log: c.log, Table: func() sources.Table {
		table, _ := c.checker.Served()
		return table
	}}
	c.checker.Probed = c.metrics.Probed
	c.checker.Noticed = func(list []health.Event) {
		c.health.Noticed(list)
		c.metrics.Noticed(list)
		c.notify.update()
	}
}
