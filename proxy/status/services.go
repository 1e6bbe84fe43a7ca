package status

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// builder makes the services of a status. What is served, and why an endpoint is
// not used, it reads from frontends; what the kernel has, from counters and the
// history.
type builder struct {
	in       Input
	f        *frontend.Frontends
	services []Service   // parallel to f.Table.Services
	empty    map[int]int // the first empty port of each service that has one
	checks   *checks
}

func newBuilder(in Input) *builder {
	f := in.Snapshot.Frontends
	if f == nil { // there was no plan yet
		f = &frontend.Frontends{}
	}
	b := &builder{in: in, f: f, checks: newChecks(in), empty: map[int]int{}}
	for _, e := range f.EmptyPorts() {
		b.empty[e.Service] = e.Port
	}
	return b
}

// build returns all services sorted by name, including those that are left out.
func (b *builder) build() []Service {
	table := b.f.Table.Services
	b.services = make([]Service, table.Len())
	for i, s := range table.All() {
		b.services[i] = described(s)
		b.services[i].Refused = refusedOf(s, b.in.Counters)
		b.endpoints(i)
		b.checks.service(&b.services[i], s)
	}
	b.virtuals()
	b.digests()
	b.markConflicts()
	b.drains()
	b.connections()
	b.chosen()
	for i := range b.services {
		b.finish(i)
	}
	all := append(b.services, b.leftOut()...)
	kernel.SortStableFunc(all, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// described is a service as the table has it.
func described(s *sources.Service) Service {
	d := Service{
		Name: s.DisplayName(), Type: string(s.Type), Origin: s.Origin.String(), Affinity: string(s.Affinity),
		ExternalPolicy: string(s.ExternalTrafficPolicy), InternalPolicy: string(s.InternalTrafficPolicy),
		Withheld: make([]string, 0, len(s.Withheld)), Virtuals: []Virtual{}, Endpoints: []Endpoint{}, Faults: []Fault{},
	}
	for _, w := range s.Withheld {
		d.Withheld = append(d.Withheld, w.Why)
	}
	for _, r := range s.SourceRanges {
		d.SourceRanges = append(d.SourceRanges, r.String())
	}
	if c := s.Clients; c != nil {
		d.Allow, d.Deny, d.Limits = c.Allowed(), c.Denied(), c.Limits()
	}
	return d
}

// leftOut returns the services that are not in the table, each with all reasons.
func (b *builder) leftOut() []Service {
	var list []Service
	for _, p := range b.in.History.leftOut {
		namespace, name, _ := strings.Cut(p.Service, "/")
		if s, in := b.f.Table.Lookup(namespace, name); in && s.Origin == p.Origin {
			continue
		}
		reason := strings.TrimPrefix(p.Message, "left out: ")
		if n := len(list); n > 0 && list[n-1].Name == p.DisplayName() && list[n-1].Origin == p.Origin.String() {
			list[n-1].Reason += "; " + reason
			continue
		}
		list = append(list, Service{
			Name: p.DisplayName(), State: LeftOut, Reason: reason, Origin: p.Origin.String(),
			Withheld: []string{}, Virtuals: []Virtual{}, Endpoints: []Endpoint{}, Faults: []Fault{},
		})
	}
	return list
}

// virtuals adds a virtual server for each front, and the states of its backends.
func (b *builder) virtuals() {
	missing, digests := missingOf(b.in), virtualDigests(&b.in.Snapshot.Want)
	for i := range b.f.Fronts {
		x := &b.f.Fronts[i]
		s := &b.services[x.Service]
		v := Virtual{
			Address: x.Key.AddrPort(), Protocol: x.Key.Proto.String(), Port: b.f.Service(x).Ports[x.Port].Name,
			Kind:      kindOf(x.Traits),
			Scheduler: b.scheduler(x), Missing: missing.virtual(x.Key), Traffic: trafficOf(b.in.Counters, x.Key),
			Backends: int(b.f.Counts(x).Serving), port: int(x.Port),
		}
		if m := b.f.Forward(x); m.Unchanged() {
			v.Forward = string(m)
		}
		if x.Traits.Has(frontend.Marked) {
			v.Mark = x.Key.Mark()
		}
		if v.Kind != KindNodePort {
			v.Link = b.f.Node.LinkOf(x.Key.Addr)
		}
		if d, ok := digests[x.Key]; ok {
			v.digest, v.Digest = d, d.String()
		}
		for _, backend := range b.f.Backends(x) {
			b.backend(x, &v, backend, &missing)
		}
		s.Virtuals = append(s.Virtuals, v)
		s.Traffic = s.Traffic.Plus(v.Traffic)
	}
}

// scheduler is how connections to a front are balanced. Rules choose at random.
func (b *builder) scheduler(x *frontend.Front) string {
	if b.in.Snapshot.ByRules() {
		return "random"
	}
	return b.f.Scheduler(x)
}

// backend sets the state of one endpoint from what it gets at one front.
func (b *builder) backend(x *frontend.Front, v *Virtual, backend frontend.Backend, missing *missing) {
	addr := b.f.Addr(int(x.Service), backend)
	s := &b.services[x.Service]
	at, found := s.find(int(x.Port), addr)
	if !found {
		return // impossible: every backend is a target
	}
	e, from := &s.Endpoints[at], &b.f.Service(x).Endpoints[backend.Endpoint]
	gone := missing.real(kernel.RealKey{Virtual: x.Key, Addr: addr})
	state := EndpointServing
	switch {
	case gone && e.State != EndpointUnused:
		state = e.State // it is a backend at another address of the port
	case gone:
		state = EndpointMissing
	case from.Weight == 0:
		state = EndpointPaused
	}
	e.State, e.Reason, e.Weight, e.Node, e.Zone = state, "", from.Weight, from.NodeName, from.Zone
	if gone {
		v.Gone++
		if from.Weight > 0 {
			v.Backends--
		}
	}
}

// markConflicts marks the virtual servers that another program made, and those
// whose VIP another host has.
func (b *builder) markConflicts() {
	for _, c := range b.in.History.conflicts {
		i, found := b.f.Find(c.Want.Key)
		if !found {
			continue
		}
		x := &b.f.Fronts[i]
		for j := range b.services[x.Service].Virtuals {
			if v := &b.services[x.Service].Virtuals[j]; v.Address == x.Key.AddrPort() && v.port == int(x.Port) {
				v.Conflict = c.Have.String()
			}
		}
	}
	for _, t := range b.in.History.taken {
		for i := range b.services {
			for j := range b.services[i].Virtuals {
				if v := &b.services[i].Virtuals[j]; v.Address.Addr() == t.Addr {
					v.Conflict = fmt.Sprintf("host %s on %s answers for it", t.MAC, t.Link)
				}
			}
		}
	}
}
