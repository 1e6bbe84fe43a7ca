package health

import (
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// Group is the endpoints of a service port in one IP family: those that one virtual server chooses from.
type Group struct {
	Port   string // its name
	Number uint16
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

// divide puts the slots into members. Each slot is looked at once, since a range of ports may have 50,000 of them.
func (j *judge) divide() {
	ports := j.service.Ports
	for len(j.members) < len(ports) {
		j.members = append(j.members, [2][]int{})
	}
	for p := range ports {
		j.members[p] = [2][]int{j.members[p][0][:0], j.members[p][1][:0]}
	}
	for i := range j.slots {
		e := &j.service.Endpoints[j.slots[i].endpoint]
		if p := servicePort(ports, e.Ports, j.slots[i].port); p >= 0 {
			in := &j.members[p][family(e)]
			*in = append(*in, i)
		}
	}
}

// servicePort returns the index of the service port that an endpoint's port with an index is for, or -1. Both lists
// mostly have the same order: that is looked at first.
func servicePort(ports []sources.Port, own []sources.EndpointPort, i int) int {
	is := func(p sources.Port) bool { return p.Name == own[i].Name && p.Protocol == own[i].Protocol }
	if i < len(ports) && is(ports[i]) {
		return i
	}
	return slices.IndexFunc(ports, is)
}

// family is 1 for IPv6, else 0.
func family(e *sources.Endpoint) int {
	if e.Addr.Is6() {
		return 1
	}
	return 0
}

// group decides which slots of a service port in a family serve.
func (j *judge) group(p *sources.Port, ipv6 bool, members []int) {
	var ordinary, backups count
	for _, i := range members {
		x := &j.slots[i]
		if !x.eligible() {
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
	g := Group{
		Port: p.Name, Number: p.Port, Protocol: p.Protocol, IPv6: ipv6,
		Mode: j.mode(ordinary, backups), Up: counted.up, Of: counted.all,
	}
	for _, i := range members {
		x := &j.slots[i]
		if x.mode = g.Mode; x.eligible() {
			j.apply(x, g.Mode, ordinary.all == 0)
		}
	}
	j.groups = append(j.groups, g)
}

// eligible reports whether health decides on a slot: neither the operator, an agent nor the source took it out.
func (s *slot) eligible() bool {
	return s.cause == Serves || s.cause == IsDown || s.cause == Waits
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
