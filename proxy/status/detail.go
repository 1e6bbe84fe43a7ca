package status

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// maxDetailed bounds the virtual servers whose real servers' traffic is read at a
// time: as many as a screen shows. Reading each one takes the kernel's lock for a
// moment.
const maxDetailed = 200

// Detail returns the status now with the endpoints of the named services only, and
// with the traffic of these.
func (r *Reader) Detail(ctx context.Context, names []string) Status {
	st := r.Status(ctx)
	wanted := st.allNamed(names)
	services := make([]Service, len(st.Services))
	copy(services, st.Services)
	for i := range services {
		if !wanted[services[i].Name] {
			services[i].Endpoints = []Endpoint{}
		}
	}
	st.Services = services
	if err := r.traffic(ctx, &st); err != nil {
		st.Warnings = append(st.Warnings, fmt.Sprintf("the traffic of endpoints is not known: %v", err))
	}
	return st
}

// allNamed returns the full names of services that have any of the names.
func (st *Status) allNamed(names []string) map[string]bool {
	wanted := map[string]bool{}
	for _, name := range names {
		for _, s := range st.named(name) {
			wanted[s.Name] = true
		}
	}
	return wanted
}

// servicePort is a port of a service in a status.
type servicePort struct{ service, port int }

// traffic fills in the traffic of the endpoints in a status.
func (r *Reader) traffic(ctx context.Context, st *Status) error {
	counter, ok := r.Counters.(RealCounter)
	if !ok || st.Uncounted {
		return nil
	}
	var keys []kernel.VirtualKey
	var of []servicePort // parallel to keys
	for i := range st.Services {
		s := &st.Services[i]
		for _, v := range s.Virtuals {
			proto, err := kernel.ParseProto(v.Protocol)
			if err == nil && len(s.Endpoints) > 0 && len(keys) < maxDetailed {
				keys, of = append(keys, kernel.VirtualAt(v.Address, proto)), append(of, servicePort{i, v.port})
			}
		}
	}
	reals, err := counter.Reals(ctx, keys)
	if err != nil {
		return err
	}
	for i, k := range keys {
		n := 0
		for n < len(reals) && reals[n].Key.Virtual == k {
			st.Services[of[i].service].addTraffic(of[i].port, reals[n])
			n++
		}
		reals = reals[n:]
	}
	return nil
}

// addTraffic adds the traffic of a real server to its endpoint.
func (s *Service) addTraffic(port int, r kernel.RealTraffic) {
	at, found := s.find(port, r.Key.Addr)
	if !found {
		return
	}
	e, sum := &s.Endpoints[at], traffic(r.Traffic)
	if e.Traffic != nil {
		sum = sum.Plus(*e.Traffic)
	}
	e.Traffic = &sum
}
