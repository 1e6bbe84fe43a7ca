package status

import (
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// endpoint finds or makes the endpoint of a port. What it points to is good
// until the next call.
func (b *builder) endpoint(p place, addr netip.AddrPort) *Endpoint {
	k := backend{p.service, p.port, addr}
	s := &b.services[p.service]
	i, found := b.found[k]
	if !found {
		port := b.in.Snapshot.Table.Services[p.service].Ports[p.port]
		i = len(s.Endpoints)
		s.Endpoints = append(s.Endpoints, Endpoint{
			Address: addr, Protocol: kernel.Proto(port.Protocol).String(), Port: port.Name, port: p.port,
		})
		b.found[k] = i
	}
	return &s.Endpoints[i]
}

// drains marks what is on its way out. A real server that drains on one address
// of its port and serves on another serves.
func (b *builder) drains() {
	policy := b.in.Snapshot.Want.Policy
	for _, d := range b.in.Snapshot.Drains {
		p, ok := b.at(d.Real.Virtual)
		if !ok {
			continue
		}
		e := b.endpoint(p, d.Real.Addr)
		if e.State != "" && e.State != EndpointDraining {
			continue
		}
		e.State = EndpointDraining
		if e.Drain != nil && !d.Since.Before(e.Drain.Since) {
			continue
		}
		e.Drain = &Drain{Since: b.in.at(d.Since)}
		if t := timeout(policy, d.Real.Virtual); t > 0 {
			e.Drain.Deadline = b.in.at(d.Since.Add(t))
		}
	}
}

// timeout is the longest that a real server of a virtual server drains.
func timeout(p kernel.Policy, k kernel.VirtualKey) time.Duration {
	i, own := slices.BinarySearchFunc(p.Drains, k, func(d kernel.VirtualDrain, k kernel.VirtualKey) int { return d.Virtual.Compare(k) })
	if own {
		return p.Drains[i].Timeout
	}
	return p.DrainTimeout
}

// connections adds up what the kernel counts for each endpoint.
func (b *builder) connections() {
	for _, r := range b.in.Counters.Reals {
		p, ok := b.at(r.Key.Virtual)
		if !ok {
			continue
		}
		i, ok := b.found[backend{p.service, p.port, r.Key.Addr}]
		if !ok {
			continue
		}
		s := &b.services[p.service]
		s.Endpoints[i].Active += uint64(r.Active)
		s.Endpoints[i].Inactive += uint64(r.Inactive)
		s.Active += uint64(r.Active)
		s.Inactive += uint64(r.Inactive)
	}
}

// unused adds the endpoints that the rules did not choose, and what the table
// says of the others.
func (b *builder) unused(i int, s *sources.Service) {
	if !s.Type.Serves() {
		return
	}
	for port, p := range s.Ports {
		for j := range s.Endpoints {
			from := &s.Endpoints[j]
			at := slices.IndexFunc(from.Ports, func(e sources.EndpointPort) bool { return e.Name == p.Name && e.Protocol == p.Protocol })
			if at < 0 {
				continue
			}
			e := b.endpoint(place{service: i, port: port}, netip.AddrPortFrom(from.Addr, from.Ports[at].Port))
			e.Node, e.Zone = from.NodeName, from.Zone
			if e.State == "" {
				e.State, e.Weight, e.Reason = EndpointUnused, from.Weight, b.whyUnused(i, from, s)
			}
		}
	}
}

// whyUnused says why the rules passed an endpoint over.
func (b *builder) whyUnused(service int, e *sources.Endpoint, s *sources.Service) string {
	quiesces := func(v Virtual) bool { return kernel.Quiesces(v.Scheduler) }
	switch {
	case s.WithholdsEndpoint(e.Addr):
		return "its address is a VIP on this node"
	case e.Weight == 0 && len(b.services[service].Virtuals) > 0 && !slices.ContainsFunc(b.services[service].Virtuals, quiesces):
		return "weight 0, which its scheduler would send clients to"
	case e.Ready || s.PublishNotReadyAddresses:
		return "traffic policy or topology"
	case e.Terminating:
		return "terminating"
	}
	return "not ready"
}
