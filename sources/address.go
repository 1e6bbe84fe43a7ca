package sources

import (
	"net/netip"
	"slices"
)

// AddressKind says how clients reach an Address.
type AddressKind uint8

// The kinds, in the order in which a service lists them.
const (
	KindClusterIP AddressKind = iota + 1
	KindExternalIP
	KindLoadBalancerIP
	KindNodePort    // on the node's own addresses
	KindHealthCheck // likewise; a load balancer asks there whether the node has endpoints
	KindMark        // by a firewall mark, whatever the address
)

// Address is one address and port that a service asks for.
type Address struct {
	Kind     AddressKind
	Addr     netip.Addr // the VIP; invalid for node ports and health checks; holds a firewall mark: see kernel.FWMark
	Port     uint16
	Protocol Protocol
	Index    int           // in Service.Ports; -1 for a health check
	Policy   TrafficPolicy // which endpoints its traffic may go to
}

// Claim is what the service must have for itself to be served at the address.
func (a Address) Claim() Claim {
	if a.Kind == KindMark {
		p := a.Addr.As16()
		return Claim{Addr: netip.AddrFrom4([4]byte(p[12:])), Protocol: FWMark}
	}
	return Claim{Addr: a.Addr, Port: a.Port, Protocol: a.Protocol}
}

// Addresses yields every address and port that a service asks for, including Withheld ones: the PortAddresses of each
// port, then the health check node port, which is TCP. Everything that depends on where a service is reached uses it.
func (s *Service) Addresses(yield func(Address) bool) {
	for i := range s.Ports {
		if !s.portAddresses(i, yield) {
			return
		}
	}
	if s.HealthChecked() {
		yield(Address{Kind: KindHealthCheck, Port: s.HealthCheckNodePort, Protocol: TCP, Index: -1,
			Policy: s.ExternalTrafficPolicy})
	}
}

// PortAddresses yields the addresses of the service port with this index: its VIPs as VIPs has them, then the
// node port.
func (s *Service) PortAddresses(port int) func(yield func(Address) bool) {
	return func(yield func(Address) bool) { s.portAddresses(port, yield) }
}

// portAddresses returns false once yield has.
func (s *Service) portAddresses(i int, yield func(Address) bool) bool {
	if s.FWMark != 0 {
		return s.markAddresses(yield)
	}
	p := &s.Ports[i]
	for kind, a := range s.VIPs {
		if !yield(Address{kind, a, p.Port, p.Protocol, i, s.Policy(kind)}) {
			return false
		}
	}
	if p.NodePort == 0 || s.Type != NodePort && s.Type != LoadBalancer {
		return true
	}
	return yield(Address{Kind: KindNodePort, Port: p.NodePort, Protocol: p.Protocol, Index: i,
		Policy: s.Policy(KindNodePort)})
}

// VIPs yields the addresses at which a node serves a service: cluster IPs, external IPs, load balancer IPs.
// It omits load balancer IPs of mode Proxy, whose traffic arrives at node ports or endpoints. It yields an
// address twice if the service has it twice.
func (s *Service) VIPs(yield func(AddressKind, netip.Addr) bool) {
	if !s.Type.Serves() {
		return
	}
	for _, a := range s.ClusterIPs {
		if !yield(KindClusterIP, a) {
			return
		}
	}
	for _, a := range s.ExternalIPs {
		if !yield(KindExternalIP, a) {
			return
		}
	}
	if s.Type != LoadBalancer {
		return
	}
	for _, vip := range s.LoadBalancerIPs {
		if vip.Mode != IPModeProxy && !yield(KindLoadBalancerIP, vip.Addr) {
			return
		}
	}
}

// HasVIP reports whether an address is one of VIPs.
func (s *Service) HasVIP(a netip.Addr) bool {
	for _, vip := range s.VIPs {
		if vip == a {
			return true
		}
	}
	return false
}

// LeadsTo reports whether the VIPs could lead to an endpoint: one of them is of its family, or there are none.
func (s *Service) LeadsTo(endpoint netip.Addr) bool {
	none := true
	for _, vip := range s.VIPs {
		if vip.Is4() == endpoint.Is4() {
			return true
		}
		none = false
	}
	return none
}

// Policy is the traffic policy of addresses of a kind.
func (s *Service) Policy(kind AddressKind) TrafficPolicy {
	if kind == KindClusterIP {
		return s.InternalTrafficPolicy
	}
	return s.ExternalTrafficPolicy
}

// Announces reports whether routing daemons may be told of the service's addresses of a kind. moved: keepalived moves
// VIPs from node to node. It may move those of every kind that files have, but no cluster IPs of an API server.
func (s *Service) Announces(kind AddressKind, moved bool) bool {
	switch {
	case kind == KindNodePort:
		return false
	case s.Announce != nil:
		return *s.Announce
	case moved && s.Origin.File != "":
		return true
	}
	return kind != KindClusterIP
}

// HealthChecked reports whether the service has a health check node port. Only a service whose external traffic
// must reach a node with an endpoint needs one.
func (s *Service) HealthChecked() bool {
	return s.HealthCheckNodePort != 0 && s.Type == LoadBalancer && s.ExternalTrafficPolicy == Local
}

// Withholds reports whether the service is not served at an address that it asks for: see Withheld.
func (s *Service) Withholds(a Address) bool {
	return len(s.Withheld) > 0 && (s.withholds(a.Claim()) || a.Addr.IsValid() && s.withholds(Claim{Addr: a.Addr}))
}

// WithholdsEndpoint reports whether an endpoint's address gets no traffic because it is a VIP on this node.
func (s *Service) WithholdsEndpoint(a netip.Addr) bool {
	return s.withholds(Claim{Addr: a, Endpoint: true})
}

func (s *Service) withholds(c Claim) bool {
	return slices.ContainsFunc(s.Withheld, func(w Withheld) bool { return w.Claim == c })
}

// served reports whether clients reach any part of the service.
func (s *Service) served() bool {
	for a := range s.Addresses {
		if a.Kind != KindHealthCheck && !s.Withholds(a) {
			return true
		}
	}
	return false
}
