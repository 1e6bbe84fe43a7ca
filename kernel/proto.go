package kernel

import (
	"fmt"
	"net/netip"
	"strings"
)

// Family is an IP version as the kernel's tables know it.
type Family uint8

// The two families. Their numbers are AF_INET and AF_INET6.
const (
	IPv4 Family = 2
	IPv6 Family = 10
)

// Tool is the name of the family's iptables.
func (f Family) Tool() string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String gives "IPv4" or "IPv6", as in kube-proxy's metrics and health JSON.
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	}
	return fmt.Sprintf("family %d", uint8(f))
}

// Bits is the length of an address of the family: 32 or 128.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// Proto is a transport protocol by its IANA number.
type Proto uint8

// The protocols IPVS balances.
const (
	TCP  Proto = 6
	UDP  Proto = 17
	SCTP Proto = 132
)

// String gives the name ipset prints: "tcp", "udp" or "sctp"; "fwmark" for FWMark, which ipset prints as 255.
func (p Proto) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	case FWMark:
		return "fwmark"
	}
	return fmt.Sprintf("%d", uint8(p))
}

// ParseProto reads a protocol's name in either case.
func ParseProto(s string) (Proto, error) {
	switch strings.ToLower(s) {
	case "tcp":
		return TCP, nil
	case "udp":
		return UDP, nil
	case "sctp":
		return SCTP, nil
	case "255", "fwmark":
		return FWMark, nil
	}
	return 0, fmt.Errorf("protocol %q: want tcp, udp or sctp", s)
}
