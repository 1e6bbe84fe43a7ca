package daemon

import (
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// observeHealth registers everything that follows the health checks.
func (c *console) observeHealth() {
	c.reader.Health, c.notify.probes = c.checker.View, c.checker.Alive
	c.health = &events.Health{Ring: &c.ring, Log: c.log, Table: func() sources.Table {
		table, _ := c.checker.Served()
		return table
	}}
	c.checker.Noticed = func(list []health.Event) {
		c.health.Noticed(list)
		c.notify.update()
	}
}
