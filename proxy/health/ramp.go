package health

import (
	"maps"
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// rampSteps is the number of steps of a slow start: the first gives an endpoint 1/16 of its weight, the last all.
const rampSteps = 16

// Ramps are the slow starts under way, by service. A value: next returns another one.
type Ramps map[serviceKey]serviceRamps

type serviceKey struct{ namespace, name string }

func keyOf(s *sources.Service) serviceKey { return serviceKey{s.Namespace, s.Name} }

// serviceRamps has the begin of the slow start of endpoint ports.
type serviceRamps map[rampKey]time.Time

// rampKey is an endpoint's port in a service.
type rampKey struct {
	port     string
	protocol sources.Protocol
	addr     netip.AddrPort
}

// group returns the key of all endpoints that one virtual server chooses from.
func (k rampKey) group() rampKey {
	family := netip.IPv4Unspecified()
	if k.addr.Addr().Is6() {
		family = netip.IPv6Unspecified()
	}
	k.addr = netip.AddrPortFrom(family, 0)
	return k
}

func rampKeyOf(e *sources.Endpoint, port int) rampKey {
	p := e.Ports[port]
	return rampKey{p.Name, p.Protocol, netip.AddrPortFrom(e.Addr, p.Port)}
}

// rampStep returns the step, 1 to 16, of a slow start that takes d, and when the next step is due: zero after the
// last one.
func rampStep(begin time.Time, d time.Duration, now time.Time) (step uint32, next time.Time) {
	gone := max(now.Sub(begin), 0)
	if gone >= d {
		return rampSteps, time.Time{}
	}
	n := gone * rampSteps / d // 0 to 15
	if n == rampSteps-1 {
		return rampSteps, time.Time{}
	}
	return uint32(n + 1), begin.Add((d*(n+1) + rampSteps - 1) / rampSteps) // rounded up, as n is rounded down
}

// ramps reports whether endpoints of a service start slowly.
func ramps(s *sources.Service) bool { return checked(s) && s.HealthCheck.SlowStart > 0 }

// next returns the slow starts of a service after what is served of it changes from was to is. An endpoint
// starts slowly if it got no connections until now while another one did, and both get some from now on. So
// there is no slow start after our own start, for a new service, out of a panic, or for the only endpoint.
// Those that are over are left out. The weights of is need not have the slow starts that are new.
func (r serviceRamps) next(was, is *sources.Service, now time.Time) serviceRamps {
	before, after := servedBy(was), servedBy(is)
	stays := map[rampKey]bool{} // groups in which an endpoint got connections and still does
	for k := range after {
		if before[k] {
			stays[k.group()] = true
		}
	}
	own := serviceRamps{}
	for k := range after {
		begin, ramping := r[k]
		switch {
		case !before[k] && stays[k.group()]:
			own[k] = now
		case before[k] && ramping && now.Sub(begin) < is.HealthCheck.SlowStart:
			own[k] = begin
		}
	}
	return own
}

func (r serviceRamps) equal(o serviceRamps) bool {
	return maps.EqualFunc(r, o, func(a, b time.Time) bool { return a.Equal(b) })
}

// servedBy returns the endpoint ports of a service that get connections.
func servedBy(s *sources.Service) map[rampKey]bool {
	found := make(map[rampKey]bool, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.Weight == 0 || !e.Ready && !s.PublishNotReadyAddresses {
			continue
		}
		for k := range e.Ports {
			found[rampKeyOf(e, k)] = true
		}
	}
	return found
}
