package rules

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// backend is a real server to be, of every front of a service port.
type backend struct {
	addr   netip.AddrPort
	weight uint32
}

// candidate is an endpoint's address and port for one service port, with its conditions.
type candidate struct {
	backend
	local    bool
	homeless bool // no node name: may be on this node
	ready    bool
	leaving  bool // serving and terminating: of use while nothing is ready
	endpoint *sources.Endpoint
}

// candidates finds the endpoints that serve a port in a family, in order of address, one for each address
// and port: of two, from overlapping slices, a local one counts.
func (l *listing) candidates(s *sources.Service, f kernel.Family, p sources.Port) {
	l.found = l.found[:0]
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if kernel.FamilyOf(e.Addr) != f || !servable(e.Addr) || s.WithholdsEndpoint(e.Addr) {
			continue
		}
		port, ok := portOf(e, p)
		if !ok {
			continue
		}
		l.found = append(l.found, candidate{
			backend:  backend{netip.AddrPortFrom(e.Addr, port), e.Weight},
			local:    l.local(e),
			homeless: e.NodeName == "",
			ready:    e.Ready || s.PublishNotReadyAddresses,
			leaving:  e.Serving && e.Terminating,
			endpoint: e,
		})
	}
	if !slices.IsSortedFunc(l.found, compareCandidates) {
		slices.SortStableFunc(l.found, compareCandidates)
	}
	l.found = slices.CompactFunc(l.found, func(a, b candidate) bool { return a.addr == b.addr })
}

func compareCandidates(a, b candidate) int {
	switch c := a.addr.Compare(b.addr); {
	case c != 0 || a.local == b.local:
		return c
	case a.local:
		return -1
	}
	return 1
}

// portOf is where an endpoint serves a service's port: ports are matched by name and protocol.
func portOf(e *sources.Endpoint, p sources.Port) (uint16, bool) {
	for _, own := range e.Ports {
		if own.Name == p.Name && own.Protocol == p.Protocol {
			return own.Port, true
		}
	}
	return 0, false
}

// local says whether an endpoint is on this node, as sources.HostFacts does.
func (l *listing) local(e *sources.Endpoint) bool {
	if e.NodeName != "" {
		return e.NodeName == l.node.Name
	}
	return slices.ContainsFunc(l.config.LocalCIDRs, func(p netip.Prefix) bool { return p.Contains(e.Addr) })
}

// choices are the backends for each traffic policy, chosen when they are first asked for: most services
// need one of the two.
type choices struct {
	*listing
	cluster, local span
	has            [2]bool
}

// by gives the backends under a policy. Only external traffic may fall back to endpoints elsewhere: an
// internalTrafficPolicy of Local says that traffic is not to leave the node.
func (c *choices) by(policy sources.TrafficPolicy, external bool) span {
	if policy == sources.Local {
		if !c.has[1] {
			c.local, c.has[1] = c.choose(func(x *candidate) bool { return x.local }), true
		}
		if c.local.len() > 0 || !external || c.config.LocalFallback != FallbackCluster {
			return c.local
		}
	}
	if !c.has[0] {
		c.cluster, c.has[0] = c.choose(c.near()), true
	}
	return c.cluster
}

// choose lists the backends among the candidates that are wanted: the ready ones, and if there are none
// those on their way out that still serve.
func (l *listing) choose(wanted func(*candidate) bool) span {
	from := len(l.backends)
	for i := range l.found {
		if x := &l.found[i]; x.ready && wanted(x) {
			l.backends = append(l.backends, x.backend)
		}
	}
	if len(l.backends) == from {
		for i := range l.found {
			if x := &l.found[i]; x.leaving && wanted(x) {
				l.backends = append(l.backends, x.backend)
			}
		}
	}
	return span{int32(from), int32(len(l.backends))}
}
