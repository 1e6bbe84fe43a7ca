package checker

import (
	"slices"
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

// followServed has the targets of the table probed that was served last.
func (c *Checker) followServed() {
	c.mu.Lock()
	t := c.served.table
	c.mu.Unlock()
	c.follow(t, nil)
}

// follow has the targets of a table probed, and no others. Targets that are new start with the state in initial.
func (c *Checker) follow(t sources.Table, initial map[health.Key]health.State) {
	c.mu.Lock()
	before := c.followed
	c.followed = t
	c.mu.Unlock()
	if sameTargets(before, t) {
		return
	}
	targets := health.Targets(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(c.board.SetTargets(targets, initial, time.Now()))
	was := c.targets
	c.targets = make(map[health.Key]*target, len(targets))
	for i := range targets {
		now := newTarget(t, &targets[i])
		before := was[now.key]
		switch {
		case before == nil:
			c.start(now)
		case before.replaces(now):
			c.runner.Remove(&before.runs)
			c.start(now)
		default:
			before.waited = now.waited
			if before.pace != now.pace {
				before.pace = now.pace
				c.repace(before)
			}
			now = before
		}
		c.targets[now.key] = now
	}
	for key, before := range was {
		if c.targets[key] == nil {
			c.runner.Remove(&before.runs)
		}
	}
}

// sameTargets reports whether two tables have the same services and these the same targets, as after a change of
// weights. It looks only at the services that differ. A program is told the weight of its endpoint, so its targets may
// differ.
func sameTargets(before, now sources.Table) bool {
	for _, d := range sources.Compare(before, now).Changes {
		if d.Service {
			return false
		}
		was, is := before.Services.At(d.Was), now.Services.At(d.Is)
		if is.HealthCheck == nil {
			continue
		}
		if is.HealthCheck.Probe.Type == sources.CheckExec || !slices.EqualFunc(targetsOf(was), targetsOf(is), func(a, b health.Target) bool { return a.Key == b.Key }) {
			return false
		}
	}
	return true
}

// targetsOf returns the targets of one service.
func targetsOf(s *sources.Service) []health.Target {
	return health.Targets(sources.Table{Services: sources.ServicesOf(*s)})
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
	x.runs = probe.Target{Probe: &s.HealthCheck.Probe, Address: from.Addr, Jitter: from.Pace.Jitter, Owner: x}
	if s.HealthCheck.Probe.Type == sources.CheckExec {
		x.runs.Meta = probe.Meta{Service: s.DisplayName(), Weight: int(s.Endpoints[first.Endpoint].Weight)}
	}
	return x
}

// replaces reports whether the runner needs another Target than the one that it has: it must not change.
func (x *target) replaces(now *target) bool {
	return x.runs.Meta != now.runs.Meta || x.runs.Jitter != now.runs.Jitter
}

func (c *Checker) start(x *target) {
	next, _ := c.board.Next(x.key)
	if c.board.Verdict(x.key).Phase == health.Unknown {
		// Targets keep their distance from each other. Those of a new table would stay within the short fast
		// interval: 25,000 tcp targets every 5 s were probed up to a second late.
		next = x.pace.Interval
	}
	c.runner.Add(&x.runs, next)
}

func (c *Checker) repace(x *target) {
	next, _ := c.board.Next(x.key)
	c.runner.Change(&x.runs, next)
}
