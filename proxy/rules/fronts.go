package rules

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// front is one address, protocol and port that a service is reached at: a virtual server to be.
type front struct {
	key      kernel.VirtualKey
	traits   traits
	service  int32 // by index in the table
	seq      int32 // of discovery
	backends span
}

// traits are what decides which sets a front is in.
type traits uint16

// The traits. The first four are what the address is; a VIP can be more than one.
const (
	clusterIP traits = 1 << iota
	externalIP
	loadBalancer
	nodePort

	local       // its external traffic policy is Local
	restricted  // source ranges guard it
	nodeAllowed // and they cover this node
	bound       // its address is ours to bind
)

// span is a part of listing.backends.
type span struct{ from, to int32 }

func (s span) len() int { return int(s.to - s.from) }

// listing is a table in the kernel's terms: fronts in the order of their keys, and what they share.
type listing struct {
	table  sources.Table
	node   kernel.Node
	config Config

	host      []netip.Addr   // the node's own addresses, sorted
	nodePorts []netip.Addr   // those of them that serve node ports, sorted
	fronts    []front        // sorted by key after order
	backends  []backend      // of all fronts, that share those of a service port
	loops     []kernel.Entry // KUBE-LOOP-BACK's entries, without their set
	checks    []checkPort    // health check node ports

	found []candidate // of the service port at hand, kept for its memory
}

type checkPort struct {
	family kernel.Family
	port   uint16
}

func newListing(t sources.Table, n kernel.Node, c Config) *listing {
	ports, targets, here := 0, 0, 0
	for i := range t.Services {
		s := &t.Services[i]
		ports += len(s.Ports)
		targets += len(s.Ports) * len(s.Endpoints)
		for k := range s.Endpoints {
			if name := s.Endpoints[k].NodeName; name == "" || name == n.Name {
				here += len(s.Ports)
			}
		}
	}
	l := &listing{
		table: t, node: n, config: c,
		host:     hostAddrs(n),
		fronts:   make([]front, 0, 2*ports),
		backends: make([]backend, 0, targets),
		loops:    make([]kernel.Entry, 0, here),
	}
	l.nodePorts = nodePortAddrs(t, n, c, l.host)
	return l
}

// service lists all fronts of a service.
func (l *listing) service(i int) {
	s := &l.table.Services[i]
	if !s.Type.Serves() {
		return
	}
	for _, f := range l.config.families() {
		if !l.serviceHas(s, f) {
			continue
		}
		for index := range s.Ports {
			l.port(i, f, index)
		}
		if healthChecked(s) {
			l.checks = append(l.checks, checkPort{f, s.HealthCheckNodePort})
		}
	}
}

// port lists the fronts of one port of a service in one family.
func (l *listing) port(i int, f kernel.Family, index int) {
	s := &l.table.Services[i]
	p := s.Ports[index]
	l.candidates(s, f, p)
	l.loopBack(p)
	chosen := choices{listing: l}
	add := func(a netip.Addr, at sources.Address, is traits) {
		if kernel.FamilyOf(a) != f || !servable(a) {
			return
		}
		l.fronts = append(l.fronts, front{
			key:      kernel.VirtualKey{Addr: netip.AddrPortFrom(a, at.Port), Proto: kernel.Proto(at.Protocol)},
			traits:   is,
			service:  int32(i),
			seq:      int32(len(l.fronts)),
			backends: chosen.by(at.Policy, at.Kind != sources.KindClusterIP),
		})
	}
	external := traits(0)
	if s.ExternalTrafficPolicy == sources.Local {
		external = local
	}
	for at := range s.PortAddresses(index) {
		if s.Withholds(at) {
			continue
		}
		switch at.Kind {
		case sources.KindClusterIP:
			add(at.Addr, at, clusterIP|l.binding(at.Addr))
		case sources.KindExternalIP:
			add(at.Addr, at, externalIP|external|l.binding(at.Addr))
		case sources.KindLoadBalancerIP:
			add(at.Addr, at, loadBalancer|external|l.binding(at.Addr)|l.guard(s, at.Addr))
		case sources.KindNodePort:
			for _, a := range l.nodePorts {
				add(a, at, nodePort|external)
			}
		}
	}
}

// serviceHas says whether a service is of a family: one of its VIPs is. One that has only node ports is
// of its endpoints' families, and of both while it has none.
func (l *listing) serviceHas(s *sources.Service, f kernel.Family) bool {
	of := func(a netip.Addr) bool { return kernel.FamilyOf(a) == f }
	if len(s.ClusterIPs)+len(s.ExternalIPs)+len(s.LoadBalancerIPs) > 0 {
		return slices.ContainsFunc(s.ClusterIPs, of) || slices.ContainsFunc(s.ExternalIPs, of) ||
			slices.ContainsFunc(s.LoadBalancerIPs, func(v sources.VIP) bool { return of(v.Addr) })
	}
	return len(s.Endpoints) == 0 || slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool { return of(e.Addr) })
}

// binding is bound for a VIP that is not on an interface of the node already: there it is somebody
// else's, to be served but neither bound nor ever unbound.
func (l *listing) binding(a netip.Addr) traits {
	if _, ours := slices.BinarySearchFunc(l.host, a, netip.Addr.Compare); ours {
		return 0
	}
	return bound
}

// servable refuses what no virtual server may be made on: the SYNs to one on loopback time out, and the
// others are not an address of one host.
func servable(a netip.Addr) bool { return a.IsGlobalUnicast() }

// serves says whether anything is served in a family.
func (l *listing) serves(f kernel.Family) bool {
	return slices.ContainsFunc(l.fronts, func(x front) bool { return x.key.Family() == f })
}

// order sorts the fronts and leaves one of each key. A key that a service has twice, as when an address
// is given as external and as load balancer IP, is both, with the first one's backends. One that two
// services have, which sources.Merge would not let through, is the first service's.
func (l *listing) order() {
	slices.SortFunc(l.fronts, func(a, b front) int {
		if c := a.key.Compare(b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.seq, b.seq)
	})
	kept := l.fronts[:0]
	for _, f := range l.fronts {
		if n := len(kept); n > 0 && kept[n-1].key == f.key {
			if kept[n-1].service == f.service {
				kept[n-1].traits |= f.traits
			}
			continue
		}
		kept = append(kept, f)
	}
	l.fronts = kept
}
