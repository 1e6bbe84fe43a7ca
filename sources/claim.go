package sources

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Claim is something that only one service can have. With Port it is a VIP's port, or, without Addr, a
// node port or a health check node port. Without Port it is an address that can be either a VIP, bound on
// this node, or an endpoint.
type Claim struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
	Endpoint bool // Addr is an endpoint's
}

// String is "10.96.0.1:80/TCP", "node port 30080/TCP", "VIP 10.96.0.1" or "endpoint 10.2.0.1".
func (c Claim) String() string {
	switch {
	case c.Endpoint:
		return fmt.Sprintf("endpoint %s", c.Addr)
	case c.Port == 0:
		return fmt.Sprintf("VIP %s", c.Addr)
	case !c.Addr.IsValid():
		return fmt.Sprintf("node port %d/%s", c.Port, c.Protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(c.Addr, c.Port), c.Protocol)
}

// Compare puts claims in order: node ports, then by address.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(c.Addr.Compare(o.Addr), cmp.Compare(c.Port, o.Port), cmp.Compare(c.Protocol, o.Protocol), compareBools(c.Endpoint, o.Endpoint))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Withheld is a part of a service that is not served, and why.
type Withheld struct {
	Claim
	Why string // one line: "10.96.0.1:80/TCP is taken by web (services.toml:3)"
}

// Withholds says whether a service's VIP is not served at a port.
func (s *Service) Withholds(vip netip.Addr, port uint16, protocol Protocol) bool {
	return s.withholds(Claim{Addr: vip}) || s.withholds(Claim{Addr: vip, Port: port, Protocol: protocol})
}

// WithholdsNodePort says whether a service's node port, or health check node port, is another's.
func (s *Service) WithholdsNodePort(port uint16, protocol Protocol) bool {
	return s.withholds(Claim{Port: port, Protocol: protocol})
}

// WithholdsEndpoint says whether nothing is sent to an endpoint's address: it is a VIP on this node.
func (s *Service) WithholdsEndpoint(a netip.Addr) bool {
	return s.withholds(Claim{Addr: a, Endpoint: true})
}

func (s *Service) withholds(c Claim) bool {
	return slices.ContainsFunc(s.Withheld, func(w Withheld) bool { return w.Claim == c })
}

// served says whether anything of a service is served that has something withheld.
func (s *Service) served() bool {
	for _, p := range s.Ports {
		if p.NodePort != 0 && !s.WithholdsNodePort(p.NodePort, p.Protocol) {
			return true
		}
		for _, vip := range s.VIPs() {
			if !s.Withholds(vip, p.Port, p.Protocol) {
				return true
			}
		}
	}
	return false
}

// rank is what kind of address a service claims. Cluster IPs and node ports are allocated by an API server,
// load balancer IPs are given by a controller, endpoints are where pods are, or what anyone writes into a
// slice of theirs; external IPs are written by anyone.
type rank uint8

const (
	allocated rank = iota
	balanced
	endpoint
	external
)

// claims calls f with the ports that a service must have for itself. A health check is answered over TCP.
func (s *Service) claims(f func(Claim, rank)) {
	for _, p := range s.Ports {
		for _, a := range s.ClusterIPs {
			f(Claim{Addr: a, Port: p.Port, Protocol: p.Protocol}, allocated)
		}
		for _, a := range s.ExternalIPs {
			f(Claim{Addr: a, Port: p.Port, Protocol: p.Protocol}, external)
		}
		for _, vip := range s.LoadBalancerIPs {
			if vip.Mode != IPModeProxy {
				f(Claim{Addr: vip.Addr, Port: p.Port, Protocol: p.Protocol}, balanced)
			}
		}
		if p.NodePort != 0 {
			f(Claim{Port: p.NodePort, Protocol: p.Protocol}, allocated)
		}
	}
	if s.HealthCheckNodePort != 0 {
		f(Claim{Port: s.HealthCheckNodePort, Protocol: TCP}, allocated)
	}
}
