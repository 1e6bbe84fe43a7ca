package checker

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// darkCheck is a Dark with the services that use its first target.
type darkCheck struct {
	health.Dark
	services []string
}

// dark lists the checks that tell nothing. The lock is held.
func (c *Checker) dark(now time.Time) []darkCheck {
	all := c.board.Dark(now)
	list := make([]darkCheck, len(all))
	for i, d := range all {
		list[i] = darkCheck{d, c.board.ServicesOf(c.followed, d.First)}
	}
	return list
}

// darkConditions says which checks tell nothing, and why. Type and reason are the subject: they stay while
// more services and endpoints are concerned, or fewer.
func darkConditions(dark []darkCheck, now time.Time) []condition.Condition {
	sources.SortFunc(dark, func(x, y darkCheck) int {
		return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.Reason, y.Reason))
	})
	var list []condition.Condition
	for i := range dark {
		d := &dark[i]
		list = append(list, condition.Condition{
			Subject: string(d.Type) + " checks: " + strings.TrimPrefix(d.Reason, "void: "), Text: darkText(d, now),
			Hint: "correct that on this node; try it by svcproxy health probe " + d.services[0] + "/" +
				d.First.Addr.Addr().String(),
		})
	}
	return list
}

// darkText says of whom checks tell nothing, and how old their last results are.
func darkText(d *darkCheck, now time.Time) string {
	last := "no result yet"
	if !d.Last.IsZero() {
		last = "the last result is " + now.Sub(d.Last).Round(time.Second).String() + " old"
	}
	of := d.First.Addr.String()
	if d.First.Addr.Port() == 0 {
		of = d.First.Addr.Addr().String()
	}
	if n := d.Targets - 1; n > 0 {
		of += " and " + sources.Count(n, "more endpoint")
	}
	service := d.services[0]
	if n := d.Services - 1; n > 0 {
		service += " and " + sources.Count(n, "more service")
	}
	return fmt.Sprintf("%s, %s; %s", service, of, last)
}

// lateSaid is how late a probe is at least to be said.
const lateSaid = 5 * time.Second

// lateConditions says which services have probes that wait for a place, and which limit makes them wait.
func lateConditions(starved []probe.Starved, now time.Time) []condition.Condition {
	var list []condition.Condition
	for _, s := range starved {
		late := now.Sub(s.Since).Round(time.Second)
		if late < lateSaid {
			continue
		}
		subject, limit := "checks of ", "health.maxInFlight"
		if s.Programs {
			subject, limit = "exec checks of ", "health.execMaxRunning"
		}
		if s.Paced {
			limit = "health.maxProbesPerSecond"
		}
		list = append(list, condition.Condition{
			Subject: subject + s.Service,
			Text: fmt.Sprintf("probes of %s wait for a place, the first for %s: the last results count",
				sources.Count(s.Targets, "endpoint"), late),
			Hint: "make its timeouts shorter and intervals longer, or raise " + limit,
		})
	}
	return list
}
