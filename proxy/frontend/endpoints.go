package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// candidate is an endpoint's address and port for one service port.
type candidate struct {
	addr     netip.AddrPort
	index    int32
	local    bool
	unplaced bool // it has no node name and may be on this node
	ready    bool
	leaving  bool // terminating but still serving: used if no endpoint is ready
	endpoint *sources.Endpoint
}

func (x *candidate) backend() Backend { return Backend{Endpoint: x.index, Port: x.addr.Port()} }

// candidates finds the endpoints that serve the port with index p in a family, sorted by
// address, without those that are cut. Overlapping endpoint slices can give an
// address and port twice: then a local one is kept.
func (l *lister) candidates(s *sources.Service, f kernel.Family, p int) {
	l.found, l.lost = l.found[:0], lost{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if kernel.FamilyOf(e.Addr) != f {
			continue
		}
		port, ok := s.PortOf(e, p)
		if !ok {
			continue
		}
		local := e.On(l.Node.Name, l.Config.LocalCIDRs)
		if e.Cut || !servable(e.Addr) || s.WithholdsEndpoint(e.Addr) {
			l.cuts = l.cuts || e.Cut
			l.lost.count(e, local)
			continue
		}
		l.found = append(l.found, candidate{
			addr:     netip.AddrPortFrom(e.Addr, port),
			index:    int32(i),
			local:    local,
			unplaced: e.NodeName == "",
			ready:    e.Ready || s.PublishNotReadyAddresses,
			leaving:  e.Serving && e.Terminating,
			endpoint: e,
		})
	}
	if !ascending(l.found) {
		slices.SortStableFunc(l.found, compareCandidates)
		l.found = slices.CompactFunc(l.found, func(a, b candidate) bool { return a.addr == b.addr })
	}
}

// ascending reports whether candidates are sorted and have different addresses, as
// almost all are.
func ascending(found []candidate) bool {
	for i := 1; i < len(found); i++ {
		if found[i-1].addr.Compare(found[i].addr) >= 0 {
			return false
		}
	}
	return true
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

// chosen are the backends of a service port under one traffic policy.
type chosen struct {
	backends []Backend
	Counts
}

// choices are what is chosen of a service port under each traffic policy. It is
// chosen on first use, because most services need one of the two.
type choices struct {
	*lister
	service        *sources.Service
	cluster, local chosen
	has            [2]bool
}

// by returns what is chosen under a policy. Only external traffic may fall back to
// endpoints on other nodes, if none here gets connections: internalTrafficPolicy Local
// says that traffic must not leave the node.
func (c *choices) by(policy sources.TrafficPolicy, external bool) chosen {
	if policy == sources.Local {
		if !c.has[1] {
			c.local, c.has[1] = c.choose(c.service, func(x *candidate) bool { return x.local }, c.lost.local), true
		}
		if c.local.Serving > 0 || !external || c.Config.LocalFallback != FallbackCluster {
			return c.local
		}
	}
	if !c.has[0] {
		c.cluster, c.has[0] = c.choose(c.service, c.near(), c.lost.all), true
	}
	if policy == sources.Local {
		return c.cluster.instead(c.local.Counts)
	}
	return c.cluster
}

// choose lists the backends among the wanted candidates: the ready ones, or if
// there are none, those that are terminating and still serve. With a scheduler that
// ignores weights, a backend of weight 0 is left out of the list. lost are the wanted
// endpoints that are no candidates.
func (l *lister) choose(s *sources.Service, wanted func(*candidate) bool, lost int32) chosen {
	from := len(l.backends)
	for i := range l.found {
		if x := &l.found[i]; x.ready && wanted(x) {
			l.backends = append(l.backends, x.backend())
		}
	}
	if len(l.backends) == from {
		for i := range l.found {
			if x := &l.found[i]; x.leaving && wanted(x) {
				l.backends = append(l.backends, x.backend())
			}
		}
	}
	counts := l.count(s, l.backends[from:], wanted, lost)
	if !kernel.Quiesces(l.Config.scheduler(s)) {
		rest := slices.DeleteFunc(l.backends[from:], func(b Backend) bool { return s.Endpoints[b.Endpoint].Weight == 0 })
		l.backends = l.backends[:from+len(rest)]
	}
	return chosen{l.backends[from:len(l.backends):len(l.backends)], counts}
}
