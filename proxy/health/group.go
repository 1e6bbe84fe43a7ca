package health

import (
	"github.com/svcproxy/svcproxy/sources"
)

// Group is the endpoints of a service port in one IP family: those that one virtual server chooses from.
type Group struct {
	Port string
	sources.Protocol
	IPv6 bool
	Mode Mode
	// Up of Of endpoints are up. Endpoints that the source, the operator or an agent took out do not count, and
	// neither do backups, unless there are no others.
	Up, Of int
}

// count is how many slots of a group could serve.
type count struct{ all, up, waiting int }

func (c *count) add(cause Cause) {
	c.all++
	switch cause {
	case Serves:
		c.up++
	case Waits:
		c.waiting++
	}
}

// group decides which slots of a service port in a family serve.
func (j *judge) group(p *sources.Port, ipv6 bool) {
	var ordinary, backups count
	for i := range j.slots {
		x := &j.slots[i]
		if !x.eligible() || !j.member(x, p, ipv6) {
			continue
		}
		if j.service.Endpoints[x.endpoint].Backup {
			backups.add(x.cause)
		} else {
			ordinary.add(x.cause)
		}
	}
	if ordinary.all+backups.all == 0 {
		return
	}
	counted := ordinary
	if ordinary.all == 0 {
		counted = backups
	}
	g := Group{p.Name, p.Protocol, ipv6, j.mode(ordinary, backups), counted.up, counted.all}
	j.groups = append(j.groups, g)
	for i := range j.slots {
		if x := &j.slots[i]; x.eligible() && j.member(x, p, ipv6) {
			j.apply(x, g.Mode, ordinary.all == 0)
		}
	}
}

// eligible reports whether health decides on a slot: neither the operator, an agent nor the source took it out.
func (s *slot) eligible() bool {
	return s.cause == Serves || s.cause == IsDown || s.cause == Waits
}

func (j *judge) member(x *slot, p *sources.Port, ipv6 bool) bool {
	e := &j.service.Endpoints[x.endpoint]
	own := &e.Ports[x.port]
	return own.Protocol == p.Protocol && own.Name == p.Name && e.Addr.Is6() == ipv6
}

// mode returns how a group is served. Backups come before panic: they were configured for this case.
func (j *judge) mode(ordinary, backups count) Mode {
	c := j.service.HealthCheck
	switch {
	case ordinary.up > 0 && c != nil && ordinary.up < needed(c, ordinary.all):
		return BelowLimit
	case ordinary.up > 0:
		return Normal
	case backups.up > 0:
		return OnBackups
	case ordinary.all > 0 && ordinary.waiting == ordinary.all, ordinary.all == 0 && backups.waiting == backups.all:
		return FirstResult
	case c != nil && c.OnAllDown == sources.AllDownClosed:
		return FailClosed
	}
	return FailOpen
}

// needed returns the number of endpoints that must be up, rounded up.
func needed(c *sources.HealthCheck, all int) int {
	if !c.MinHealthyPercent {
		return min(c.MinHealthy, all)
	}
	return min((c.MinHealthy*all+99)/100, all)
}

// apply gives a slot the cause that it has in its group.
func (j *judge) apply(x *slot, m Mode, onlyBackups bool) {
	backup := j.service.Endpoints[x.endpoint].Backup && !onlyBackups
	switch {
	case backup && m != OnBackups && x.cause == Serves:
		x.cause = Standby
	case !backup && m.Panic() && x.cause != Serves:
		x.cause = Spared
	case x.cause == IsDown || x.cause == Waits:
		x.cut = j.cutsDown(x)
	}
}
