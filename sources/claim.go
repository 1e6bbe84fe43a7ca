package sources

import (
	"cmp"
	"fmt"
	"net/netip"
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

// rank is that of the claims of an address.
func (k AddressKind) rank() rank {
	switch k {
	case KindExternalIP:
		return external
	case KindLoadBalancerIP:
		return balanced
	}
	return allocated
}
