package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Reason says why an endpoint gets no connections.
type Reason uint8

// The reasons, in the order in which they are checked.
const (
	Used        Reason = iota // it does get connections
	EndpointVIP               // its address is a VIP on this node
	Cut                       // health checks or the operator took it out with its connections
	ZeroWeight                // its scheduler ignores weights, so it is left out
	Elsewhere                 // the traffic policy or topology hints keep it for other nodes
	Terminating
	NotReady
)

// Reasons lists every reason for which an endpoint gets no connections.
func Reasons() []Reason {
	list := make([]Reason, 0, len(reasons)-1)
	for r := Used + 1; int(r) < len(reasons); r++ {
		list = append(list, r)
	}
	return list
}

// String returns the reason as status shows it; "" for Used.
func (r Reason) String() string { return reasons[r] }

var reasons = [...]string{
	EndpointVIP: "its address is a VIP on this node",
	Cut:         "cut: its connections end",
	ZeroWeight:  "weight 0, which its scheduler would send clients to",
	Elsewhere:   "traffic policy or topology",
	Terminating: "terminating",
	NotReady:    "not ready",
}

// Target is an endpoint's port of one service port.
type Target struct {
	Port     int // index in the service's Ports
	Endpoint int // index in the service's Endpoints
	Addr     netip.AddrPort
	Reason   Reason // Used if any front of the port has it as a backend
}

// Targets returns all endpoint ports of the service with index i, by service
// port and endpoint. Endpoints that do not serve a port are not listed for it.
func (f *Frontends) Targets(i int) []Target {
	s := f.Table.Services.At(i)
	if !s.Type.Serves() {
		return nil
	}
	targets := make([]Target, 0, len(s.Ports)*len(s.Endpoints))
	for p := range s.Ports {
		for k := range s.Endpoints {
			e := &s.Endpoints[k]
			number, ok := s.PortOf(e, p)
			if !ok {
				continue
			}
			t := Target{Port: p, Endpoint: k, Addr: netip.AddrPortFrom(e.Addr, number)}
			if !f.uses(i, p, t.Addr) {
				t.Reason = f.unused(i, e)
			}
			targets = append(targets, t)
		}
	}
	return targets
}

// uses reports whether a front of a service port has an address as a backend.
func (f *Frontends) uses(i, port int, addr netip.AddrPort) bool {
	for _, l := range f.services.at(i).lists {
		if int(l.port) != port {
			continue
		}
		if _, found := slices.BinarySearchFunc(l.backends, addr, func(b Backend, a netip.AddrPort) int {
			return f.Addr(i, b).Compare(a)
		}); found {
			return true
		}
	}
	return false
}

// unused returns why an endpoint of the service with index i is not a backend.
func (f *Frontends) unused(i int, e *sources.Endpoint) Reason {
	s := f.Table.Services.At(i)
	switch {
	case s.WithholdsEndpoint(e.Addr):
		return EndpointVIP
	case e.Cut:
		return Cut
	case e.Weight == 0 && len(f.services.at(i).lists) > 0 && !kernel.Quiesces(f.Config.scheduler(s)):
		return ZeroWeight
	case e.Ready || s.PublishNotReadyAddresses:
		return Elsewhere
	case e.Terminating:
		return Terminating
	}
	return NotReady
}
