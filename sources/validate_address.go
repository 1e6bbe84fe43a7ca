package sources

import (
	"net/netip"
	"slices"
)

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// unfit says why an address can be neither a VIP nor an endpoint; "" if it can.
func unfit(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "is no address"
	case a.Is4In6():
		return "is an IPv4-mapped IPv6 address"
	case a.Zone() != "":
		return "has a zone"
	case a.IsLoopback():
		return "is a loopback address"
	case a.IsUnspecified():
		return "is the unspecified address"
	case a.IsMulticast():
		return "is a multicast address"
	case a.IsLinkLocalUnicast():
		return "is a link-local address"
	case a == broadcast:
		return "is the broadcast address"
	}
	return ""
}

func (v *validation) vips(s *Service) {
	var v4, v6 int
	for _, a := range s.ClusterIPs {
		if a.Is4() {
			v4++
		} else {
			v6++
		}
	}
	if v4 > 1 || v6 > 1 {
		v.refuse(s, "more than one cluster IP of a family: at most one IPv4 and one IPv6, others can be externalIPs")
	}

	given := map[netip.Addr]bool{}
	for _, a := range s.VIPs {
		if why := unfit(a); why != "" {
			v.refuse(s, "VIP %s %s: no client could reach it", a, why)
			continue
		}
		if given[a] {
			v.refuse(s, "VIP %s is given twice", a)
			continue
		}
		given[a] = true
	}
}

func (v *validation) endpoints(s *Service) {
	if n := len(s.Endpoints); n > MostEndpoints {
		v.refuse(s, "%d endpoints, and a service has at most %d", n, MostEndpoints)
		return
	}
	leads := false
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if i == 0 || e.Addr.Is4() != s.Endpoints[i-1].Addr.Is4() {
			leads = s.LeadsTo(e.Addr) // the same for all endpoints of a family
		}
		if why := unfit(e.Addr); why != "" {
			v.refuse(s, "endpoint %s %s: IPVS could not reach it", e.Addr, why)
			continue
		}
		if e.Weight > 65535 {
			v.refuse(s, "endpoint %s: weight %d must be 0 (drain) to 65535", e.Addr, e.Weight)
		}
		v.limits(s, e)
		if !leads {
			v.refuse(s, "endpoint %s is %s and no VIP of the service is", e.Addr, family(e.Addr))
		}
		// A contest finds that such an endpoint cannot be reached once the VIP is bound. If the address is the host's
		// own, it is not bound, and a process on this host may serve it on another port.
		if s.HasVIP(e.Addr) && loops(s, *e) {
			v.refuse(s, "endpoint %s is the service's own VIP and port: it would be sent to itself", e.Addr)
		}
	}
}

// loops reports whether one of the endpoint's ports is a port of the service.
func loops(s *Service, e Endpoint) bool {
	return slices.ContainsFunc(e.Ports, func(ep EndpointPort) bool {
		return slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Port == ep.Port && p.Protocol == ep.Protocol })
	})
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
