package health

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
)

// probed returns where the probe for an endpoint's port goes: to the port that the probe names, or else to the
// endpoint's port itself. It is false if the endpoint has no port of the name.
func probed(p *sources.Probe, e *sources.Endpoint, port int) (netip.AddrPort, bool) {
	number := uint16(0)
	switch {
	case p.Type == sources.CheckPing:
	case p.Port != 0:
		number = p.Port
	case p.PortName != "":
		i := slices.IndexFunc(e.Ports, func(o sources.EndpointPort) bool { return o.Name == p.PortName })
		if i < 0 {
			return netip.AddrPort{}, false
		}
		number = e.Ports[i].Port
	default:
		number = reachable(p.Type, e, port)
	}
	return netip.AddrPortFrom(e.Addr, number), true
}

// reachable returns the number of a port that the probe can reach. A probe over TCP cannot ask a UDP port. Such a
// port is judged by the TCP port of the same number, as with DNS and HTTP/3, else by the endpoint's first TCP port.
// If there is none the probe goes to the port's number all the same, as was ordered.
func reachable(t sources.CheckType, e *sources.Endpoint, port int) uint16 {
	own := e.Ports[port]
	proto := t.Protocol()
	if proto == 0 || own.Protocol == proto {
		return own.Port
	}
	number, found := own.Port, false
	for _, o := range e.Ports {
		if o.Protocol != proto {
			continue
		}
		if o.Port == own.Port {
			return o.Port
		}
		if !found {
			number, found = o.Port, true
		}
	}
	return number
}
