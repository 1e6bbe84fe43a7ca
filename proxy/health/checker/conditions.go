package checker

import (
	"fmt"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// darkConditions says which checks tell nothing, and why. The lock is held.
func (c *Checker) darkConditions(now time.Time) []condition.Condition {
	var list []condition.Condition
	at := map[string]int{}
	for _, d := range c.board.Dark(now) {
		services := c.board.ServicesOf(c.followed, d.Targets...)
		about := services[0]
		if n := len(services) - 1; n > 0 {
			about += fmt.Sprintf(" and %d more", n)
		}
		subject, text := d.Type+" check of "+about, darkText(&d, now)
		if i, found := at[subject]; found { // for another reason
			list[i].Text += "; " + text
			continue
		}
		at[subject] = len(list)
		list = append(list, condition.Condition{Subject: subject, Text: text, Hint: "svcproxy health probe " + services[0] + "/" + d.Targets[0].Addr.Addr().String()})
	}
	return list
}

// darkText says why a check tells nothing, of whom, and how old its last results are.
func darkText(d *health.Dark, now time.Time) string {
	last := "no result yet"
	if !d.Last.IsZero() {
		last = "the last result is " + now.Sub(d.Last).Round(time.Second).String() + " old"
	}
	of := d.Targets[0].Addr.String()
	if d.Targets[0].Addr.Port() == 0 {
		of = d.Targets[0].Addr.Addr().String()
	}
	if n := len(d.Targets) - 1; n > 0 {
		of += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s: %s; %s", of, strings.TrimPrefix(d.Reason, "void: "), last)
}

// lateSaid is how late a probe is at least to be said.
const lateSaid = 5 * time.Second

// lateConditions says which services have probes that wait for a place. Exec checks have a line of their own in status.
func lateConditions(starved []probe.Starved, now time.Time) []condition.Condition {
	var list []condition.Condition
	for _, s := range starved {
		late := now.Sub(s.Since).Round(time.Second)
		if s.Programs || late < lateSaid {
			continue
		}
		text := fmt.Sprintf("probes of %s wait for a place, the first for %s: the last results count", sources.Count(s.Targets, "endpoint"), late)
		list = append(list, condition.Condition{Subject: "checks of " + s.Service, Text: text})
	}
	return list
}
