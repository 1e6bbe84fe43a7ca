package status

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// endpoints adds the endpoints of the table's service with this index. All of them
// count as unused until a front has them as backends.
func (b *builder) endpoints(i int) {
	from, s := b.f.Table.Services.At(i), &b.services[i]
	targets := b.f.Targets(i)
	s.Endpoints = make([]Endpoint, len(targets))
	for n, t := range targets {
		e, port := &from.Endpoints[t.Endpoint], &from.Ports[t.Port]
		s.Endpoints[n] = Endpoint{
			Address: t.Addr, Name: e.Name.Text(), Protocol: kernel.Proto(port.Protocol).String(), Port: port.Name,
			Node: e.NodeName, Zone: e.Zone, Weight: e.Weight, State: EndpointUnused, Reason: t.Reason.String(), port: t.Port,
		}
	}
	if !slices.IsSortedFunc(s.Endpoints, compareEndpoints) {
		kernel.SortStableFunc(s.Endpoints, compareEndpoints)
	}
	// Overlapping endpoint slices can give an address twice.
	s.Endpoints = slices.CompactFunc(s.Endpoints, func(a, b Endpoint) bool { return compareEndpoints(a, b) == 0 })
}

// place is where the endpoint is, for people: "app.example.net (10.0.0.1:8080)".
func (e *Endpoint) place() string { return sources.Place(e.Name, e.Address.String()) }

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(cmp.Compare(a.port, b.port), a.Address.Compare(b.Address))
}

// find returns the index of the endpoint of a port, or where it belongs.
func (s *Service) find(port int, addr netip.AddrPort) (int, bool) {
	return sort.Find(len(s.Endpoints), func(i int) int {
		e := &s.Endpoints[i]
		return cmp.Or(cmp.Compare(port, e.port), addr.Compare(e.Address))
	})
}

// drains marks the endpoints that drain, and adds those that the table no longer
// has. A real server that drains at one address of its port and serves at another
// one serves.
func (b *builder) drains() {
	policy := b.in.Snapshot.Want.Policy
	for _, d := range b.in.Snapshot.Drains {
		i, found := b.f.Find(d.Real.Virtual)
		if !found {
			continue
		}
		x := &b.f.Fronts[i]
		s := &b.services[x.Service]
		at, found := s.find(int(x.Port), d.Real.Addr)
		if !found {
			s.Endpoints = slices.Insert(s.Endpoints, at, b.removed(x, d.Real.Addr))
		}
		e := &s.Endpoints[at]
		if e.State != EndpointUnused && e.State != EndpointDraining {
			continue
		}
		e.State, e.Weight, e.Reason = EndpointDraining, 0, ""
		if e.Drain != nil && !d.Since.Before(e.Drain.Since) {
			continue
		}
		e.Drain = &Drain{Since: b.in.at(d.Since)}
		if t := timeout(policy, d.Real.Virtual); t > 0 {
			e.Drain.Deadline = b.in.at(d.Since.Add(t))
		}
	}
}

// removed is an endpoint that is not in the table.
func (b *builder) removed(x *frontend.Front, addr netip.AddrPort) Endpoint {
	port := &b.f.Service(x).Ports[x.Port]
	return Endpoint{Address: addr, Protocol: kernel.Proto(port.Protocol).String(), Port: port.Name, State: EndpointUnused,
		port: int(x.Port)}
}

// timeout is how long a real server of a virtual server may drain; 0 = until its
// last connection ends.
func timeout(p kernel.Policy, k kernel.VirtualKey) time.Duration {
	i, own := slices.BinarySearchFunc(p.Drains, k, func(d kernel.VirtualDrain, k kernel.VirtualKey) int {
		return d.Virtual.Compare(k)
	})
	if own {
		return p.Drains[i].Timeout
	}
	return p.DrainTimeout
}

// fronts returns a function that finds the front of a virtual server, nil if there is none. It is asked for the same
// one many times in a row.
func (b *builder) fronts() func(kernel.VirtualKey) *frontend.Front {
	var x *frontend.Front
	var last kernel.VirtualKey
	return func(key kernel.VirtualKey) *frontend.Front {
		if key != last {
			last, x = key, nil
			if i, found := b.f.Find(key); found {
				x = &b.f.Fronts[i]
			}
		}
		return x
	}
}

// chosen adds up the new connections of each endpoint, where rules count them.
func (b *builder) chosen() {
	front := b.fronts()
	for _, r := range b.in.Counters.Chosen {
		if x := front(r.Key.Virtual); x != nil {
			b.services[x.Service].addTraffic(int(x.Port), r)
		}
	}
}

// connections adds up the connections of each endpoint.
func (b *builder) connections() {
	front := b.fronts()
	for _, r := range b.in.Counters.Reals {
		x := front(r.Key.Virtual)
		if x == nil {
			continue
		}
		s := &b.services[x.Service]
		at, found := s.find(int(x.Port), r.Key.Addr)
		if !found {
			continue
		}
		e := &s.Endpoints[at]
		if _, full := b.in.Full[r.Key]; full && e.State == EndpointServing {
			e.Full = true
		}
		e.Active += Count(r.Active)
		e.Inactive += Count(r.Inactive)
		s.Active += Count(r.Active)
		s.Inactive += Count(r.Inactive)
	}
}
