package status

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Service is a service and how it is served.
type Service struct {
	Name   string `json:"name"` // its DisplayName
	Type   string `json:"type"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // why State is not Serving
	Origin string `json:"origin"`           // "file:line", or the name of the source

	ExternalPolicy string   `json:"externalTrafficPolicy,omitempty"`
	InternalPolicy string   `json:"internalTrafficPolicy,omitempty"`
	Affinity       string   `json:"sessionAffinity,omitempty"`
	SourceRanges   []string `json:"loadBalancerSourceRanges,omitempty"`
	Allow          []string `json:"allow,omitempty"`
	Deny           []string `json:"deny,omitempty"`
	Limits         string   `json:"limits,omitempty"` // in words
	// Refused counts first packets of connections that Allow, Deny and Limits refused; nil if nothing counts them.
	Refused kernel.Refusals `json:"refused,omitempty"`

	// Withheld says which parts are not served and why, one line each: another
	// service has them, or this node cannot serve them.
	Withheld []string `json:"withheld"`

	Virtuals  []Virtual  `json:"virtuals"`  // sorted by port as in the table, then kind and address
	Endpoints []Endpoint `json:"endpoints"` // sorted by port as in the table, then address
	Faults    []Fault    `json:"faults"`

	// Backends counts the endpoints, each once for each port.
	Backends Backends `json:"backends"`
	Active   Count    `json:"active,omitzero"`
	Inactive Count    `json:"inactive,omitzero"`
	Traffic  Traffic  `json:"traffic,omitzero"`
	// Health is nil if the table alone decides on the endpoints.
	Health *ServiceHealth `json:"health,omitempty"`
	// Digest is that of the virtual servers, except those of node ports: nodes that serve the service alike have
	// the same. It is "" without virtual servers in IPVS.
	Digest string `json:"digest,omitempty"`

	digest kernel.Digest
}

// Backends counts a service's endpoints: those that get new connections, those that
// drain, and all others.
type Backends struct {
	Serving  int `json:"serving"`
	Draining int `json:"draining"`
	Unused   int `json:"unused"`
	Full     int `json:"full,omitempty"` // of those that serve: see Endpoint.Full
}

// String is how many endpoints serve, out of those that do not drain: "2/3".
func (b Backends) String() string { return fmt.Sprintf("%d/%d", b.Serving, b.Serving+b.Unused) }

// Virtual is a virtual server: one address and port at which clients reach a service.
type Virtual struct {
	Address   netip.AddrPort `json:"address"`  // with a Mark, the kernel's form of it: see kernel.FWMark
	Protocol  string         `json:"protocol"` // tcp, udp, sctp; fwmark: all, by Mark
	Mark      uint32         `json:"mark,omitempty"`
	Port      string         `json:"port,omitempty"`
	Kind      Kind           `json:"kind"`
	Scheduler string         `json:"scheduler"`
	// Forward is how packets reach the real servers: a sources.Forward; "" for masquerading.
	Forward  string `json:"forward,omitempty"`
	Backends int    `json:"backends"` // real servers that get new connections
	Conflict string `json:"conflict,omitempty"`
	// Link is the node's link that has the address already, so that svcproxy does not
	// bind it; "" if svcproxy binds it, and for node ports.
	Link    string  `json:"link,omitempty"`
	Missing bool    `json:"missing,omitempty"` // the kernel lacks it
	Gone    int     `json:"gone,omitempty"`    // real servers that the kernel lacks
	Traffic Traffic `json:"traffic,omitzero"`
	Digest  string  `json:"digest,omitempty"` // of the wanted virtual server: see kernel.Digest

	port   int // index in the ports of the table's service
	digest kernel.Digest
}

// Endpoint is one endpoint of one port of a service. Its connections are those of
// all its real servers: it has one at each address of the port.
type Endpoint struct {
	Address  netip.AddrPort `json:"address"`
	Name     string         `json:"name,omitempty"` // the DNS name that the address is of
	Protocol string         `json:"protocol"`
	Port     string         `json:"port,omitempty"`
	Node     string         `json:"node,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	Weight   uint32         `json:"weight"`
	State    EndpointState  `json:"state"`
	Reason   string         `json:"reason,omitempty"` // why it is unused
	Active   Count          `json:"active,omitzero"`
	Inactive Count          `json:"inactive,omitzero"`
	Drain    *Drain         `json:"drain,omitempty"`
	// Full: at an address of the service it has its maxConnections, or had them and waits for
	// resumeConnections. So it gets no new ones there.
	Full bool `json:"full,omitempty"`
	// Health says why it has its weight; nil if the table alone decides on it.
	Health *EndpointHealth `json:"health,omitempty"`
	// Traffic is only known for the services that Reader.Detail was asked for.
	Traffic *Traffic `json:"traffic,omitempty"`

	port int // index in the ports of the table's service
}

// Draining is a draining endpoint with the name of its service.
type Draining struct {
	Service string `json:"service"`
	Endpoint
}

// Drain says since when an endpoint drains, and until when at most.
type Drain struct {
	Since time.Time `json:"since"`
	// Deadline is zero if the drain lasts until the last connection ends.
	Deadline time.Time `json:"deadline,omitzero"`
}
