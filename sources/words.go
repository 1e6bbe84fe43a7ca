package sources

import "fmt"

// Type says where a service is reachable; each word means what it means in a Kubernetes Service.
type Type string

// The types. Headless (a clusterIP of None there) and ExternalName are accepted and serve nothing.
const (
	ClusterIP    Type = "ClusterIP"
	NodePort     Type = "NodePort"
	LoadBalancer Type = "LoadBalancer"
	Headless     Type = "Headless"
	ExternalName Type = "ExternalName"
)

// Serves says whether a service of this type has anything to be programmed.
func (t Type) Serves() bool { return t != Headless && t != ExternalName }

// TrafficPolicy says which endpoints traffic may go to.
type TrafficPolicy string

// The policies: all endpoints, or only those on this node, the client's address kept.
const (
	Cluster TrafficPolicy = "Cluster"
	Local   TrafficPolicy = "Local"
)

// Affinity says what makes connections go to the same endpoint.
type Affinity string

// The affinities: none, or the client's address.
const (
	AffinityNone     Affinity = ""
	AffinityClientIP Affinity = "ClientIP"
)

// IPMode says how a load balancer delivers to an address of its own.
type IPMode string

// The modes. The zero value is IPModeVIP's meaning not spelled out: packets arrive with the address as
// destination. Under Proxy they arrive at a node port or an endpoint, and the node leaves the address alone.
const (
	IPModeDefault IPMode = ""
	IPModeVIP     IPMode = "VIP"
	IPModeProxy   IPMode = "Proxy"
)

// TrafficDistribution is a wish for near endpoints.
type TrafficDistribution string

// The distributions.
const (
	DistributeEvenly TrafficDistribution = ""
	PreferSameZone   TrafficDistribution = "PreferSameZone"
	PreferSameNode   TrafficDistribution = "PreferSameNode"
)

// Protocol is a transport; its value is the IP protocol number, as in an IP header.
type Protocol uint8

// The transports IPVS balances.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// ParseProtocol reads "TCP", "UDP" or "SCTP", in capitals as Kubernetes writes them.
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

// String is the name in capitals.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}
