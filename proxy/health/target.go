package health

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"unique"

	"github.com/svcproxy/svcproxy/sources"
)

// Key identifies a target: one probe of one address. It is small, and cheap to compare and to hash.
type Key struct {
	Probe unique.Handle[sources.Probe]
	Addr  netip.AddrPort // port 0 for a probe without a port, such as ping
	// Service is the full name of the service, for type exec alone: the program is told of it, so that services
	// cannot share its result.
	Service string
}

// String returns the type of the probe and the address.
func (k Key) String() string {
	p := k.Probe.Value()
	text := string(p.Type) + " " + k.Addr.String()
	if k.Addr.Port() == 0 {
		text = string(p.Type) + " " + k.Addr.Addr().String()
	}
	if vip := p.Way.VIP(k.Addr.Addr()); vip.IsValid() {
		text += " via " + vip.String()
	}
	return text
}

// compare orders keys by address, for output.
func (k Key) compare(o Key) int {
	if c := cmp.Or(k.Addr.Compare(o.Addr), strings.Compare(k.Service, o.Service)); c != 0 || k.Probe == o.Probe {
		return c
	}
	return strings.Compare(fmt.Sprint(k.Probe.Value()), fmt.Sprint(o.Probe.Value()))
}

// Target is something to probe, with all endpoints that depend on the answer.
type Target struct {
	Key
	// Pace is the most frequent one among its services. Mixed: they differ.
	Pace  Pace
	Mixed bool
	Payer int32 // index of the first service with that pace: its probes are those of this service
	Users []User
}

// User is one port of an endpoint in a table, by its indexes.
type User struct {
	Service, Endpoint int32 // in Table.Services, in Service.Endpoints
	Port              int32 // in Endpoint.Ports
	Author            author
}

// authorOf returns who wrote a service: a file, or a namespace of an API server.
func authorOf(s *sources.Service) author {
	if s.Origin.File != "" {
		return unique.Make(s.Origin.File)
	}
	return unique.Make(s.Origin.Source + " " + s.Namespace)
}

// Targets returns the targets of a table, each once, in the order of the first service that needs it.
func Targets(t sources.Table) []Target {
	l := newTargetList(t, probedPorts(t))
	for i := range t.Services.Len() {
		l.add(int32(i))
	}
	return l.targets
}

// TargetsOf is Targets for some services of a table, by their indexes in order: targets of no other service, and no
// other users.
func TargetsOf(t sources.Table, services []int32) []Target {
	l := newTargetList(t, 0)
	for _, i := range services {
		l.add(i)
	}
	return l.targets
}

// targetList collects the targets of services.
type targetList struct {
	table   sources.Table
	targets []Target
	users   []User // the first one of each target
	at      map[Key]int
	intern  interned
}

// newTargetList returns a list with room for n targets.
func newTargetList(t sources.Table, n int) *targetList {
	return &targetList{table: t, targets: make([]Target, 0, n), users: make([]User, 0, n), at: make(map[Key]int, n)}
}

// add adds the targets of a service.
func (l *targetList) add(service int32) {
	s := l.table.Services.At(int(service))
	if !checked(s) {
		return
	}
	pace, by := PaceOf(s.HealthCheck), authorOf(s)
	for j := range s.Endpoints {
		e := &s.Endpoints[j]
		for k := range e.Ports {
			key, ok := l.intern.key(s, e, k)
			if !ok {
				continue
			}
			user := User{service, int32(j), int32(k), by}
			if n, found := l.at[key]; found {
				l.targets[n].add(user, pace)
				continue
			}
			l.at[key] = len(l.targets)
			l.users = append(l.users, user)
			n := len(l.users)
			l.targets = append(l.targets, Target{Key: key, Pace: pace, Payer: service, Users: l.users[n-1 : n : n]})
		}
	}
}

// probedPorts returns how many targets a table has at most.
func probedPorts(t sources.Table) (n int) {
	for i := range t.Services.Len() {
		if s := t.Services.At(i); checked(s) {
			for j := range s.Endpoints {
				n += len(s.Endpoints[j].Ports)
			}
		}
	}
	return n
}

// add notes another user of the target.
func (t *Target) add(u User, p Pace) {
	t.Users = append(t.Users, u)
	if p != t.Pace {
		t.Mixed = true
		if p.compare(t.Pace) < 0 {
			t.Pace, t.Payer = p, u.Service
		}
	}
}

// checked reports whether a service's endpoints are probed at all.
func checked(s *sources.Service) bool {
	return s.HealthCheck != nil && s.HealthCheck.Probe.Type != "" && s.Type.Serves()
}

// interned makes the Probe of a Key. Services that follow each other often have the same health check, so that the
// last one is remembered.
type interned struct {
	of     *sources.HealthCheck
	handle unique.Handle[sources.Probe]
}

// key returns the target of an endpoint's port; false if it is not probed.
func (n *interned) key(s *sources.Service, e *sources.Endpoint, port int) (Key, bool) {
	if e.Unchecked || s.WithholdsEndpoint(e.Addr) {
		return Key{}, false
	}
	c := s.HealthCheck
	addr, ok := probed(&c.Probe, e, port)
	if !ok {
		return Key{}, false
	}
	if n.of != c {
		if n.of == nil || n.of.Probe != c.Probe {
			n.handle = unique.Make(c.Probe)
		}
		n.of = c
	}
	k := Key{Probe: n.handle, Addr: addr}
	if c.Probe.Type == sources.CheckExec {
		k.Service = s.FullName()
	}
	return k, true
}
