package sources

import (
	"net/netip"
	"slices"
)

// VIPs are the addresses a node serves the service on, in the order cluster, external, load balancer;
// those that a load balancer proxies are not the node's affair. The list may be the service's own: it is
// not to be changed.
func (s Service) VIPs() []netip.Addr {
	vips := append(slices.Clip(s.ClusterIPs), s.ExternalIPs...)
	for _, vip := range s.LoadBalancerIPs {
		if vip.Mode != IPModeProxy {
			vips = append(vips, vip.Addr)
		}
	}
	return vips
}

// eachVIP calls f with each of VIPs, and makes no list.
func (s *Service) eachVIP(f func(netip.Addr)) {
	for _, a := range s.ClusterIPs {
		f(a)
	}
	for _, a := range s.ExternalIPs {
		f(a)
	}
	for _, vip := range s.LoadBalancerIPs {
		if vip.Mode != IPModeProxy {
			f(vip.Addr)
		}
	}
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// unfit says why an address can be neither a VIP nor an endpoint; "" when it can.
func unfit(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "is no address"
	case a.Is4In6():
		return "is an IPv4 address in IPv6 clothing"
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
	for _, a := range s.VIPs() {
		if why := unfit(a); why != "" {
			v.refuse(s, "VIP %s %s: no client could reach it", a, why)
			continue
		}
		if given[a] {
			v.refuse(s, "VIP %s is given twice", a)
			continue
		}
		given[a] = true
		if v.host.cutOff(a) {
			v.warn(s, "VIP %s is this host's default gateway: it is left out, as to bind it would cut the node off", a)
		}
		if v.host.owns(a) && !slices.Contains(s.ExternalIPs, a) {
			v.warn(s, "VIP %s is this host's own address: it is served, and not bound while the host has it", a)
		}
	}
}

func (v *validation) endpoints(s *Service) {
	vips, v4, v6 := map[netip.Addr]bool{}, false, false
	for _, a := range s.VIPs() {
		vips[a], v4, v6 = true, v4 || a.Is4(), v6 || !a.Is4()
	}
	for _, e := range s.Endpoints {
		if why := unfit(e.Addr); why != "" {
			v.refuse(s, "endpoint %s %s: IPVS could not reach it", e.Addr, why)
			continue
		}
		if e.Weight > 65535 {
			v.refuse(s, "endpoint %s: weight %d must be 0 (drain) to 65535", e.Addr, e.Weight)
		}
		if len(vips) > 0 && !(e.Addr.Is4() && v4 || !e.Addr.Is4() && v6) {
			v.refuse(s, "endpoint %s is %s and no VIP of the service is", e.Addr, family(e.Addr))
		}
		if vips[e.Addr] {
			v.selfServed(s, e)
		}
	}
}

// selfServed judges an endpoint whose address is a VIP of its own service. Bound here, the address would
// no longer be reached where the endpoint is; a contest finds that. Only on the
// host's own address, which is not bound, may a process on this host serve it, on another port.
func (v *validation) selfServed(s *Service, e Endpoint) {
	switch {
	case loops(s, e):
		v.refuse(s, "endpoint %s is the service's own VIP and port: it would be sent to itself", e.Addr)
	case len(v.host.Addrs) == 0 && slices.Contains(s.ExternalIPs, e.Addr):
		v.warn(s, "external IP %s is also an endpoint: right only if it is this host's own address", e.Addr)
	}
}

// loops says whether one of the endpoint's ports is the service's own.
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
