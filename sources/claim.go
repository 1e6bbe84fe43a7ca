package sources

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Claim is something that only one service can have. With Addr and Port it is a port of a VIP. With Port alone it is a
// node port or a health check node port. With Addr alone it is an address as a VIP, which is bound on this node, or as
// an endpoint, which is elsewhere: it cannot be both. With Protocol FWMark Addr holds a firewall mark of both families.
type Claim struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
	Endpoint bool // Addr is that of an endpoint
}

// String returns "10.96.0.1:80/TCP", "node port 30080/TCP", "VIP 10.96.0.1" or "endpoint 10.2.0.1".
func (c Claim) String() string {
	switch {
	case c.Protocol == FWMark:
		return fmt.Sprintf("firewall mark %d", c.mark())
	case c.Endpoint:
		return fmt.Sprintf("endpoint %s", c.Addr)
	case c.Port == 0:
		return fmt.Sprintf("VIP %s", c.Addr)
	case !c.Addr.IsValid():
		return fmt.Sprintf("node port %d/%s", c.Port, c.Protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(c.Addr, c.Port), c.Protocol)
}

// mark is the firewall mark of a claim with Protocol FWMark.
func (c Claim) mark() uint32 {
	p := c.Addr.As16()
	return binary.BigEndian.Uint32(p[12:])
}

// Compare orders claims: node ports first, then by address.
func (c Claim) Compare(o Claim) int {
	return cmp.Or(c.Addr.Compare(o.Addr), cmp.Compare(c.Port, o.Port), cmp.Compare(c.Protocol, o.Protocol),
		CompareBools(c.Endpoint, o.Endpoint))
}

// CompareBools orders false before true.
func CompareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Withheld is a part of a service that is not served.
type Withheld struct {
	Claim
	Why string // one line: "10.96.0.1:80/TCP is taken by web (services.toml:3)"
}

// rank is how well a kind of address is protected in Kubernetes. A better rank wins a contest. The API server allocates
// cluster IPs and node ports, a controller sets load balancer IPs. Users may write endpoints of their own, and external
// IPs of any service.
type rank uint8

const (
	allocated rank = iota
	balanced
	endpoint
	external
)

// rank is the rank of a claim to an address of this kind.
func (k AddressKind) rank() rank {
	switch k {
	case KindExternalIP:
		return external
	case KindLoadBalancerIP:
		return balanced
	}
	return allocated
}
