package sources

import (
	"fmt"
	"net/netip"
	"slices"
)

// Merge makes one table of several, the earlier ones winning: the order is static, files by path, API
// server. A service that needs something of an earlier one, be it the name, a VIP:port, a node port or
// an endpoint's address as VIP, is left out whole and reported with both places. No argument is changed;
// the merged table may share its services with the only one there are any in.
func Merge(tables ...Table) (merged Table, problems []Problem) {
	if some := filled(tables); len(some) == 1 && some[0].isApart() {
		return interleave(some), nil
	}
	all := newLedger(HostFacts{}, tables...)
	remaining := make([]Table, len(tables))
	for i, t := range tables {
		out := map[int]bool{} // by index
		for j, s := range t.Services {
			n := all.needs(s)
			conflicts := all.conflicts(s, n)
			for _, conflict := range conflicts {
				problems = append(problems, problem(&s, "left out: %s", conflict))
			}
			if len(conflicts) == 0 {
				all.enter(s, n)
			} else {
				out[j] = true
			}
		}
		remaining[i] = t.without(out)
	}
	return interleave(remaining), problems
}

// without is the table, sorted, but for the services of some indices. It is the table itself where nothing
// is to be done: a table of 1,000 services has a copy of half a megabyte.
func (t Table) without(out map[int]bool) Table {
	if len(out) == 0 && slices.IsSortedFunc(t.Services, compareNames) {
		return t
	}
	left := Table{Services: make([]Service, 0, len(t.Services)-len(out))}
	for j, s := range t.Services {
		if !out[j] {
			left.Services = append(left.Services, s)
		}
	}
	left.Sort()
	return left
}

// claim is something only one service can have: a VIP's port, or, with no address, a node port.
type claim struct {
	addr     netip.Addr
	port     uint16
	protocol Protocol
}

func (c claim) String() string {
	if !c.addr.IsValid() {
		return fmt.Sprintf("node port %d/%s", c.port, c.protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(c.addr, c.port), c.protocol)
}

// claims are what a service that serves must have for itself. A health check is answered over TCP.
func claims(s Service, vips []netip.Addr) []claim {
	var needed []claim
	for _, p := range s.Ports {
		for _, vip := range vips {
			needed = append(needed, claim{vip, p.Port, p.Protocol})
		}
		if p.NodePort != 0 {
			needed = append(needed, claim{port: p.NodePort, protocol: p.Protocol})
		}
	}
	if s.HealthCheckNodePort != 0 {
		needed = append(needed, claim{port: s.HealthCheckNodePort, protocol: TCP})
	}
	return needed
}

// owner is a service as later ones are told of it.
type owner struct {
	namespace, name string
	origin          Origin
}

func ownerOf(s Service) *owner { return &owner{s.Namespace, s.Name, s.Origin} }

func (o *owner) String() string {
	name := o.name
	if o.namespace != DefaultNamespace {
		name = o.namespace + "/" + o.name
	}
	return fmt.Sprintf("%s (%s)", name, o.origin)
}

// ledger is who has what, of the services entered so far.
type ledger struct {
	host      HostFacts
	vips      map[netip.Addr]bool // of all services, entered or not
	names     map[[2]string]*owner
	claims    map[claim]*owner
	bound     map[netip.Addr]*owner // VIPs that this node will take for its own
	endpoints map[netip.Addr]*owner // those that are a VIP too: of others nobody asks
}

// newLedger is for the services of some tables. It has room for them: to grow its maps took longer than to
// fill them.
func newLedger(host HostFacts, tables ...Table) *ledger {
	services := 0
	for _, t := range tables {
		services += len(t.Services)
	}
	l := &ledger{
		host:      host,
		vips:      make(map[netip.Addr]bool, services),
		names:     make(map[[2]string]*owner, services),
		claims:    make(map[claim]*owner, services),
		bound:     make(map[netip.Addr]*owner, services),
		endpoints: map[netip.Addr]*owner{},
	}
	for _, t := range tables {
		for _, s := range t.Services {
			for _, a := range s.VIPs() {
				l.vips[a] = true
			}
		}
	}
	return l
}

// needs are what a service must have, and what it takes: none when it serves nothing.
type needs struct {
	claims    []claim
	bound     []netip.Addr
	endpoints []netip.Addr // those that are a VIP of some service too
}

func (l *ledger) needs(s Service) needs {
	if !s.Type.Serves() {
		return needs{}
	}
	vips := s.VIPs()
	n := needs{claims: claims(s, vips), bound: l.bindable(s, vips)}
	for i := range s.Endpoints {
		if a := s.Endpoints[i].Addr; l.vips[a] {
			n.endpoints = append(n.endpoints, a)
		}
	}
	return n
}

// conflicts says what a service cannot have, once for each other service and kind.
func (l *ledger) conflicts(s Service, n needs) []string {
	if o, taken := l.names[[2]string{s.Namespace, s.Name}]; taken {
		return []string{fmt.Sprintf("the name is taken by %s", o)}
	}
	var found []string
	for _, c := range n.claims {
		if o, taken := l.claims[c]; taken {
			found = append(found, fmt.Sprintf("%s is taken by %s", c, o))
		}
	}
	if !s.Type.Serves() {
		return found
	}
	for _, a := range n.bound {
		if o, taken := l.endpoints[a]; taken {
			found = append(found, fmt.Sprintf("VIP %s is an endpoint of %s: bound on this node it could no longer be reached", a, o))
		}
	}
	for _, a := range n.endpoints {
		if o, taken := l.bound[a]; taken {
			found = append(found, fmt.Sprintf("endpoint %s is a VIP of %s: bound on this node it cannot be reached", a, o))
		}
	}
	return found
}

// enter notes what a service has; what an earlier one has stays its.
func (l *ledger) enter(s Service, n needs) {
	o := ownerOf(s)
	note(l.names, [2]string{s.Namespace, s.Name}, o)
	if !s.Type.Serves() {
		return
	}
	for _, c := range n.claims {
		note(l.claims, c, o)
	}
	for _, a := range n.bound {
		note(l.bound, a, o)
	}
	for _, a := range n.endpoints {
		note(l.endpoints, a, o)
	}
}

func note[K comparable](m map[K]*owner, k K, o *owner) {
	if _, taken := m[k]; !taken {
		m[k] = o
	}
}

// bindable are the VIPs that end up on this node. An external IP may be the host's own address, which
// is served and not bound, so it counts only where the host's addresses are known and it is not one.
func (l *ledger) bindable(s Service, vips []netip.Addr) []netip.Addr {
	bound := make([]netip.Addr, 0, 4)
	var external map[netip.Addr]bool // a broken file may have a million
	if len(s.ExternalIPs) > 0 {
		external = make(map[netip.Addr]bool, len(s.ExternalIPs))
	}
	for _, a := range s.ExternalIPs {
		external[a] = true
	}
	for _, a := range vips {
		if !external[a] || len(l.host.Addrs) > 0 && !l.host.owns(a) {
			bound = append(bound, a)
		}
	}
	return bound
}
