package status

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// builder puts together what the table says of services, what the rules made of
// it, and what the kernel counts. One walk over each.
type builder struct {
	in       Input
	services []Service // parallel to the table's
	places   map[kernel.VirtualKey]place
	ports    map[nodePort]place
	found    map[backend]int // index among its service's endpoints
}

// place is a port of a service, and what kind of address it is reached at.
type place struct {
	service, port int
	kind          Kind
}

type nodePort struct {
	port  uint16
	proto kernel.Proto
}

// backend is an endpoint of one port of one service.
type backend struct {
	service, port int
	addr          netip.AddrPort
}

func newBuilder(in Input) *builder {
	n := len(in.Snapshot.Want.Virtuals)
	return &builder{
		in: in, places: make(map[kernel.VirtualKey]place, n), ports: map[nodePort]place{},
		found: make(map[backend]int, len(in.Snapshot.Want.Reals)),
	}
}

// build gives all services, sorted by name, those left out among them.
func (b *builder) build() []Service {
	table := b.in.Snapshot.Table.Services
	b.services = make([]Service, len(table))
	for i := range table {
		b.services[i] = described(&table[i])
		b.locate(i, &table[i])
	}
	b.virtuals()
	b.drains()
	b.connections()
	for i := range table {
		b.unused(i, &table[i])
		b.finish(i, &table[i])
	}
	all := append(b.services, b.leftOut()...)
	slices.SortStableFunc(all, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// described is a service as the table has it.
func described(s *sources.Service) Service {
	d := Service{
		Name: s.FullName(), Type: string(s.Type), Origin: s.Origin.String(), Affinity: string(s.Affinity),
		ExternalPolicy: string(s.ExternalTrafficPolicy), InternalPolicy: string(s.InternalTrafficPolicy),
		Withheld: make([]string, 0, len(s.Withheld)), Virtuals: []Virtual{}, Endpoints: make([]Endpoint, 0, len(s.Ports)*len(s.Endpoints)), Faults: []Fault{},
	}
	for _, w := range s.Withheld {
		d.Withheld = append(d.Withheld, w.Why)
	}
	for _, r := range s.SourceRanges {
		d.SourceRanges = append(d.SourceRanges, r.String())
	}
	return d
}

// leftOut are services of which nothing is in the table, each with all its
// reasons.
func (b *builder) leftOut() []Service {
	var list []Service
	for _, p := range b.in.History.leftOut {
		namespace, name, _ := strings.Cut(p.Service, "/")
		if s, in := b.in.Snapshot.Table.Lookup(namespace, name); in && s.Origin == p.Origin {
			continue
		}
		reason := strings.TrimPrefix(p.Message, "left out: ")
		if n := len(list); n > 0 && list[n-1].Name == p.Service && list[n-1].Origin == p.Origin.String() {
			list[n-1].Reason += "; " + reason
			continue
		}
		list = append(list, Service{
			Name: p.Service, State: LeftOut, Reason: reason, Origin: p.Origin.String(),
			Withheld: []string{}, Virtuals: []Virtual{}, Endpoints: []Endpoint{}, Faults: []Fault{},
		})
	}
	return list
}

// locate notes where a service is reached.
func (b *builder) locate(i int, s *sources.Service) {
	for a := range s.Addresses {
		if s.Withholds(a) {
			continue
		}
		proto := kernel.Proto(a.Protocol)
		switch a.Kind {
		case sources.KindNodePort:
			b.ports[nodePort{a.Port, proto}] = place{i, a.Index, KindNodePort}
		case sources.KindClusterIP, sources.KindExternalIP, sources.KindLoadBalancerIP:
			k := kernel.VirtualKey{Addr: netip.AddrPortFrom(a.Addr, a.Port), Proto: proto}
			if _, taken := b.places[k]; !taken {
				b.places[k] = place{i, a.Index, kindOf[a.Kind]}
			}
		}
	}
}

// kindOf names the kinds of VIPs.
var kindOf = map[sources.AddressKind]Kind{
	sources.KindClusterIP: KindClusterIP, sources.KindExternalIP: KindExternalIP, sources.KindLoadBalancerIP: KindLoadBalancer,
}

// at is the place of a virtual server. What is at no service's address is at an
// address of the node.
func (b *builder) at(k kernel.VirtualKey) (place, bool) {
	if p, ok := b.places[k]; ok {
		return p, true
	}
	p, ok := b.ports[nodePort{k.Addr.Port(), k.Proto}]
	return p, ok
}

// virtuals lists virtual servers with their real servers, both sorted by key.
func (b *builder) virtuals() {
	reals, missing := b.in.Snapshot.Want.Reals, missingOf(b.in)
	for _, v := range b.in.Snapshot.Want.Virtuals {
		n := 0
		for n < len(reals) && reals[n].Key.Virtual == v.Key {
			n++
		}
		of := reals[:n]
		reals = reals[n:]
		p, ok := b.at(v.Key)
		if !ok {
			continue
		}
		s := &b.services[p.service]
		w := Virtual{
			Address: v.Key.Addr, Protocol: v.Key.Proto.String(), Port: b.portName(p), Kind: p.kind, Scheduler: v.Scheduler,
			Missing: missing.virtual(v.Key), Traffic: trafficOf(b.in.Counters, v.Key), port: p.port,
		}
		if p.kind != KindNodePort {
			w.Link = b.in.Snapshot.Node.LinkOf(v.Key.Addr.Addr())
		}
		for _, r := range of {
			e := b.endpoint(p, r.Key.Addr)
			gone := missing.real(r.Key)
			switch {
			case gone && e.State != "": // it is behind another address of the port
			case gone:
				e.Weight, e.State = r.Weight, EndpointMissing
			case r.Weight == 0:
				e.Weight, e.State = r.Weight, EndpointPaused
			default:
				e.Weight, e.State = r.Weight, EndpointServing
				w.Backends++
			}
			if gone {
				w.Gone++
			}
		}
		s.Virtuals = append(s.Virtuals, w)
		s.Traffic = s.Traffic.Plus(w.Traffic)
	}
	for _, c := range b.in.History.conflicts {
		b.conflict(c)
	}
	for _, t := range b.in.History.taken {
		b.taken(t)
	}
}

// taken marks the virtual servers of a VIP that another host has.
func (b *builder) taken(t kernel.Taken) {
	for i := range b.services {
		for j := range b.services[i].Virtuals {
			if v := &b.services[i].Virtuals[j]; v.Address.Addr() == t.Addr {
				v.Conflict = fmt.Sprintf("host %s on %s answers for it", t.MAC, t.Link)
			}
		}
	}
}

func (b *builder) portName(p place) string {
	return b.in.Snapshot.Table.Services[p.service].Ports[p.port].Name
}

// conflict marks a virtual server as somebody else's.
func (b *builder) conflict(c kernel.Conflict) {
	p, ok := b.at(c.Want.Key)
	if !ok {
		return
	}
	for i := range b.services[p.service].Virtuals {
		if v := &b.services[p.service].Virtuals[i]; v.Address == c.Want.Key.Addr && v.port == p.port {
			v.Conflict = c.Have.String()
		}
	}
}
