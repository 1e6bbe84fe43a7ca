package checker

import (
	"time"

	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// target is a target of the table that is followed. The runner's Target refers back to it.
type target struct {
	key    health.Key
	pace   health.Pace
	waited bool // one of its services sends an endpoint nothing before its first result
	runs   probe.Target
}

// followNext has the targets of the table probed that Overlay got last.
func (c *Checker) followNext() {
	c.follows.Lock()
	defer c.follows.Unlock()
	c.mu.Lock()
	t := c.next
	c.mu.Unlock()
	c.followLocked(t, nil)
}

// follow has the targets of a table probed, and no others. Targets that are new start with the verdict in initial. The
// cost grows with what changed, unless a service comes, goes or changes in more than its endpoints.
func (c *Checker) follow(t sources.Table, initial map[health.Key]health.Verdict) {
	c.follows.Lock()
	defer c.follows.Unlock()
	c.followLocked(t, initial)
}

// inherited returns the verdicts with which targets of a table start, because the probe of their services changed: see
// health.Board.Inherited.
func (c *Checker) inherited(t sources.Table) map[health.Key]health.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.board.Inherited(c.followed, t)
}

func (c *Checker) followLocked(t sources.Table, initial map[health.Key]health.Verdict) {
	c.mu.Lock()
	before := c.followed
	c.mu.Unlock()
	delta := sources.Compare(before, t)
	few := delta.OnlyEndpoints()
	var targets []health.Target
	if !few {
		targets = health.Targets(t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followed = t
	var events []health.Event
	if few {
		var gone []health.Key
		targets, gone = c.board.Changed(before, t, changed(delta))
		events = c.board.Update(targets, gone, initial, time.Now())
	} else {
		events = c.board.SetTargets(targets, initial, time.Now())
	}
	c.note(events)
	for _, e := range events {
		if e.Kind == health.IsGone {
			c.runner.Remove(&c.targets[e.Key].runs)
			delete(c.targets, e.Key)
			if e.Key.Probe.Value().Type == sources.CheckAgent {
				c.agents.write(time.Now())
			}
		}
	}
	for i := range targets {
		c.probe(newTarget(t, &targets[i]))
	}
}

// changed returns the indexes of services whose endpoints differ, in order.
func changed(d sources.Delta) []int32 {
	services := make([]int32, len(d.Changes))
	for i, c := range d.Changes {
		services[i] = int32(c.Is)
	}
	return services
}

// probe has a target probed that is new or may differ.
func (c *Checker) probe(now *target) {
	before := c.targets[now.key]
	switch {
	case before == nil:
		c.runner.Add(&now.runs, now.pace.Interval)
	case before.replaces(now):
		c.runner.Remove(&before.runs)
		c.runner.Add(&now.runs, now.pace.Interval)
	default:
		before.waited = now.waited
		if before.pace != now.pace {
			before.pace = now.pace
			c.runner.Change(&before.runs, now.pace.Interval)
		}
		return
	}
	c.targets[now.key] = now
}

// newTarget returns a target for the runner. If its services differ in what they tell a program or in jitter, the
// first one counts.
func newTarget(t sources.Table, from *health.Target) *target {
	first := from.Users[0]
	s := t.Services.At(int(first.Service))
	x := &target{key: from.Key, pace: from.Pace}
	for _, u := range from.Users {
		x.waited = x.waited || t.Services.At(int(u.Service)).HealthCheck.Initial == sources.InitialDown
	}
	x.runs = probe.Target{
		Probe: &s.HealthCheck.Probe, Address: from.Addr, Jitter: from.Pace.Jitter, Owner: x,
		Service: t.Services.At(int(from.Payer)).DisplayName(),
	}
	if s.HealthCheck.Probe.Type == sources.CheckExec {
		x.runs.Meta = probe.Meta{Service: s.DisplayName(), Weight: int(s.Endpoints[first.Endpoint].Weight)}
	}
	return x
}

// replaces reports whether the runner needs another Target than the one that it has: it must not change.
func (x *target) replaces(now *target) bool {
	return x.runs.Meta != now.runs.Meta || x.runs.Service != now.runs.Service || x.runs.Jitter != now.runs.Jitter
}
