package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// places lists what an order is for in the table that is served.
func (c *console) places(s health.Selector) []health.Place { return s.Places(c.checker.Brief().Table) }

// probes says how an endpoint is probed.
func (c *console) probes(s health.Selector) control.Probes {
	return control.Probes{Version: c.about.Version, Probes: control.ProbesOf(c.checker.View().Table, s)}
}

// applied waits until the kernel has the orders given before the call. It does not wait for the rest of a load, since
// each part of it has them. The error says why some of these endpoints are not as ordered yet; that of another step of
// the sync does not count.
func (c *console) applied(ctx context.Context, to []health.Place) error {
	now, err := c.proxy.Await(ctx, c.checker.Ordered())
	if err != nil {
		return fmt.Errorf("no sync has ended since: %w", err)
	}
	var steps *kernel.ApplyError
	if !errors.As(now.Report.Err, &steps) {
		return now.Report.Err
	}
	if c.about.Mode != mode.IPVS {
		return steps // other modes balance with rules, in which no step is about one endpoint alone
	}
	for _, f := range steps.Failed {
		real, ok := f.Op.Object.(kernel.Real)
		for _, p := range to {
			if ok && real.Key.Addr == p.Addr {
				return f
			}
		}
	}
	return nil
}
