package sources

import "fmt"

// Type says where a service is reachable, as in a Kubernetes Service.
type Type string

// The types. Headless, which has clusterIP None in Kubernetes, and ExternalName are accepted and serve nothing.
const (
	ClusterIP    Type = "ClusterIP"
	NodePort     Type = "NodePort"
	LoadBalancer Type = "LoadBalancer"
	Headless     Type = "Headless"
	ExternalName Type = "ExternalName"
)

// Serves reports whether services of this type are programmed.
func (t Type) Serves() bool { return t != Headless && t != ExternalName }

// TrafficPolicy says which endpoints traffic may go to.
type TrafficPolicy string

// The policies: all endpoints, or only those on this node, the client's address kept.
const (
	Cluster TrafficPolicy = "Cluster"
	Local   TrafficPolicy = "Local"
)

// Affinity says which connections go to the same endpoint.
type Affinity string

// The affinities: none, or those from the same client address.
const (
	AffinityNone     Affinity = ""
	AffinityClientIP Affinity = "ClientIP"
)

// IPMode says how packets to a load balancer's address reach the node.
type IPMode string

// The modes. With IPModeVIP, and by default, packets arrive with the address as their destination. With
// IPModeProxy they arrive at a node port or an endpoint, and the node does not serve the address.
const (
	IPModeDefault IPMode = ""
	IPModeVIP     IPMode = "VIP"
	IPModeProxy   IPMode = "Proxy"
)

// TrafficDistribution says which endpoints are preferred.
type TrafficDistribution string

// The distributions.
const (
	DistributeEvenly TrafficDistribution = ""
	PreferSameZone   TrafficDistribution = "PreferSameZone"
	PreferSameNode   TrafficDistribution = "PreferSameNode"
)

// Protocol is a transport protocol, by its number in IP headers.
type Protocol uint8

// The protocols that IPVS balances.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// ParseProtocol parses "TCP", "UDP" or "SCTP", in capitals as Kubernetes writes them.
func ParseProtocol(s string) (Protocol, error) {
	switch s {
	case "TCP":
		return TCP, nil
	case "UDP":
		return UDP, nil
	case "SCTP":
		return SCTP, nil
	}
	return 0, fmt.Errorf("protocol %q is not one of TCP, UDP, SCTP", s)
}

// String returns the name in capitals.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	case FWMark:
		return "fwmark"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}
