package frontend

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// List returns what node n serves of table t.
func List(t sources.Table, n kernel.Node, c Config) *Frontends {
	n, c = c.on(n)
	f := &Frontends{Table: t, Node: n, Config: c, host: hostAddrs(n)}
	f.portsAt = nodePortAddrs(t, n, c, f.host)
	services := make([]*service, t.Services.Len())
	l := newLister(f)
	all := make([]service, t.Services.Len())
	for i := range t.Services.Len() {
		services[i] = &all[i]
		l.service(i, &all[i])
		if healthChecked(t.Services.At(i)) {
			f.checks = append(f.checks, int32(i))
		}
	}
	f.services = slices.Collect(slices.Chunk(services, pageLength))
	f.Fronts = ordered(l.fronts)
	for i := range f.Fronts {
		f.backends += len(f.Backends(&f.Fronts[i]))
	}
	f.cut = f.allCut()
	return f
}

// lister lists the fronts of services one after the other. Its slices grow, and
// each service keeps its part of them.
type lister struct {
	*Frontends
	families []kernel.Family
	fronts   []Front // of all services so far
	lists    []list
	backends []Backend
	hairpins []Hairpin

	found []candidate // of the current service port
	lost  lost        // those of it that are no candidates
	slots int32       // fronts of the current service
	cuts  bool        // some of its endpoints are cut
}

// newLister returns a lister with memory for a whole table.
func newLister(f *Frontends) *lister {
	ports, targets, here := 0, 0, 0
	for i := range f.Table.Services.Len() {
		s := f.Table.Services.At(i)
		ports += len(s.Ports)
		targets += len(s.Ports) * len(s.Endpoints)
		for k := range s.Endpoints {
			if name := s.Endpoints[k].NodeName; name == "" || name == f.Node.Name {
				here += len(s.Ports)
			}
		}
	}
	return &lister{
		Frontends: f, families: f.Config.Families(),
		fronts:   make([]Front, 0, 2*ports),
		lists:    make([]list, 0, 2*ports),
		backends: make([]Backend, 0, targets),
		hairpins: make([]Hairpin, 0, here),
	}
}

// service lists the fronts of one service and fills in what depends on its
// endpoints.
func (l *lister) service(i int, filled *service) {
	s := l.Table.Services.At(i)
	if !s.Type.Serves() {
		return
	}
	l.slots, l.cuts = 0, false
	lists, hairpins := len(l.lists), len(l.hairpins)
	filled.local = 0
	checked := healthChecked(s)
	masqueraded := !s.Forwarding(l.Config.Forward).Unchanged()
	for _, f := range l.families {
		if !has(s, f) {
			continue
		}
		var counted []netip.Addr
		for p := range s.Ports {
			l.candidates(s, f, p)
			if s.FWMark == 0 && (masqueraded || s.Ports[p].NodePort != 0) {
				l.noteHairpins(s.Ports[p])
			}
			if checked {
				counted = l.appendInviting(counted, s)
			}
			l.port(i, f, p, masqueraded)
		}
		filled.local = max(filled.local, distinct(counted))
	}
	filled.lists = l.lists[lists:len(l.lists):len(l.lists)]
	filled.hairpins = l.hairpins[hairpins:len(l.hairpins):len(l.hairpins)]
	filled.cuts = l.cuts
}

// port lists the fronts of one service port in one family. Those of node ports are always masqueraded: the endpoints
// cannot have the node's address.
func (l *lister) port(i int, f kernel.Family, p int, masqueraded bool) {
	s := l.Table.Services.At(i)
	choices := choices{lister: l, service: s}
	add := func(a netip.Addr, at *sources.Address, is Traits) {
		if kernel.FamilyOf(a) != f || !is.Has(Marked) && !servable(a) {
			return
		}
		l.fronts = append(l.fronts, Front{
			Key:     kernel.VirtualKey{Addr: a, Port: at.Port, Proto: kernel.Proto(at.Protocol)},
			Service: int32(i), slot: l.slots, Port: int16(p), Traits: is,
		})
		l.lists = append(l.lists, list{choices.by(at.Policy, at.Kind != sources.KindClusterIP), int16(p)})
		l.slots++
	}
	for at := range s.PortAddresses(p) {
		if s.Withholds(at) {
			continue
		}
		is := traits(&at)
		if !masqueraded && at.Kind != sources.KindNodePort {
			is |= Unmasqueraded
		}
		if l.Config.Announce && at.Kind != sources.KindMark && s.Announces(at.Kind, l.Config.Moved) {
			is |= Announced
		}
		switch at.Kind {
		case sources.KindNodePort:
			for _, a := range l.portsAt {
				add(a, &at, is)
			}
			continue
		case sources.KindMark:
			add(at.Addr, &at, is)
			continue
		case sources.KindLoadBalancerIP:
			is |= l.guard(s, at.Addr)
		}
		add(at.Addr, &at, is|l.binding(at.Addr))
	}
}

// traits returns the kind and the policy of an address.
func traits(at *sources.Address) Traits {
	is, local := NodePort, ExternalLocal
	switch at.Kind {
	case sources.KindClusterIP:
		is, local = ClusterIP, InternalLocal
	case sources.KindExternalIP:
		is = ExternalIP
	case sources.KindLoadBalancerIP:
		is = LoadBalancer
	case sources.KindMark:
		return Marked
	}
	if at.Policy == sources.Local {
		is |= local
	}
	return is
}

// has reports whether a service is of a family: one of its VIPs is. A service
// with node ports only, or a firewall mark, has the families of its endpoints, and both without any.
func has(s *sources.Service, f kernel.Family) bool {
	of := func(a netip.Addr) bool { return kernel.FamilyOf(a) == f }
	if hasVIPs(s) {
		return slices.ContainsFunc(s.ClusterIPs, of) || slices.ContainsFunc(s.ExternalIPs, of) ||
			slices.ContainsFunc(s.LoadBalancerIPs, func(v sources.VIP) bool { return of(v.Addr) })
	}
	return len(s.Endpoints) == 0 || slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool { return of(e.Addr) })
}

func hasVIPs(s *sources.Service) bool {
	return len(s.ClusterIPs)+len(s.ExternalIPs)+len(s.LoadBalancerIPs) > 0
}

// binding returns Bound for a VIP, unless an interface of the node has it
// already. Then another program manages the address: we serve it, but neither
// bind nor remove it.
func (l *lister) binding(a netip.Addr) Traits {
	if _, found := slices.BinarySearchFunc(l.host, a, netip.Addr.Compare); found {
		return 0
	}
	return Bound
}

// servable refuses addresses on which a virtual server cannot work. SYNs to one
// on loopback time out, and the others are not the address of one host.
func servable(a netip.Addr) bool { return a.IsGlobalUnicast() }

// ordered sorts fronts and keeps one of each key. If a service has a key twice,
// for example an address given as external and as load balancer IP, the front
// has both kinds and the backends of the first. If two services have the same
// key, one has it as a node port and the other as a VIP, which is the node's own
// address: the VIP gets it. sources.Merge prevents all else.
func ordered(fronts []Front) []Front {
	slices.SortFunc(fronts, func(a, b Front) int {
		if c := a.Key.Compare(b.Key); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.Traits&NodePort, b.Traits&NodePort), cmp.Compare(a.Service, b.Service),
			cmp.Compare(a.slot, b.slot))
	})
	kept := fronts[:0]
	for _, f := range fronts {
		if n := len(kept); n > 0 && kept[n-1].Key == f.Key {
			if kept[n-1].Service == f.Service {
				kept[n-1].Traits |= f.Traits
				if kept[n-1].Traits.Has(NodePort) {
					kept[n-1].Traits &^= Unmasqueraded
				}
			}
			continue
		}
		kept = append(kept, f)
	}
	return kept
}
