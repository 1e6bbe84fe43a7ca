package status

import (
	"fmt"
	"net/netip"
	"time"
)

// Service is one service: what it is, and how it is served.
type Service struct {
	Name   string `json:"name"` // "namespace/name"
	Type   string `json:"type"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // why it is not Serving
	Origin string `json:"origin"`           // "file:line", or the name of the source

	ExternalPolicy string   `json:"externalTrafficPolicy,omitempty"`
	InternalPolicy string   `json:"internalTrafficPolicy,omitempty"`
	Affinity       string   `json:"sessionAffinity,omitempty"`
	SourceRanges   []string `json:"loadBalancerSourceRanges,omitempty"`

	// Withheld is what of it is not served, and why, one line each: another service
	// has it, or this node cannot serve it.
	Withheld []string `json:"withheld"`

	Virtuals  []Virtual  `json:"virtuals"`  // sorted by port as given, then kind and address
	Endpoints []Endpoint `json:"endpoints"` // sorted by port as given, then address
	Faults    []Fault    `json:"faults"`

	// Backends counts endpoints, each once for each port: those that get new
	// connections, those that drain, and those that are not used.
	Backends Backends `json:"backends"`
	Active   uint64   `json:"active"`
	Inactive uint64   `json:"inactive"`
	Traffic  Traffic  `json:"traffic"`
}

// Backends counts a service's endpoints.
type Backends struct {
	Serving  int `json:"serving"`
	Draining int `json:"draining"`
	Unused   int `json:"unused"`
}

// String is how many serve, of how many there are that do not drain: "2/3".
func (b Backends) String() string { return fmt.Sprintf("%d/%d", b.Serving, b.Serving+b.Unused) }

// Virtual is one address that a service is reached at.
type Virtual struct {
	Address   netip.AddrPort `json:"address"`
	Protocol  string         `json:"protocol"` // tcp, udp, sctp
	Port      string         `json:"port,omitempty"`
	Kind      Kind           `json:"kind"`
	Scheduler string         `json:"scheduler"`
	Backends  int            `json:"backends"` // real servers that get new connections
	Conflict  string         `json:"conflict,omitempty"`
	// Link is the node's link that has the address, so that it is served and not
	// bound; "" for one that is bound, and for node ports.
	Link    string  `json:"link,omitempty"`
	Missing bool    `json:"missing,omitempty"` // from the kernel
	Gone    int     `json:"gone,omitempty"`    // real servers that the kernel lacks
	Traffic Traffic `json:"traffic"`

	port int // by index in the table's service
}

// Endpoint is one place that serves one port of a service. Its connections are
// those of all its real servers, one on each address of the port.
type Endpoint struct {
	Address  netip.AddrPort `json:"address"`
	Protocol string         `json:"protocol"`
	Port     string         `json:"port,omitempty"`
	Node     string         `json:"node,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	Weight   uint32         `json:"weight"`
	State    EndpointState  `json:"state"`
	Reason   string         `json:"reason,omitempty"` // why it is unused
	Active   uint64         `json:"active"`
	Inactive uint64         `json:"inactive"`
	Drain    *Drain         `json:"drain,omitempty"`
	// Traffic is known of those services alone that Reader.Detail is asked for.
	Traffic *Traffic `json:"traffic,omitempty"`

	port int // by index in the table's service
}

// Draining is an endpoint that drains, with its service.
type Draining struct {
	Service string `json:"service"`
	Endpoint
}

// Drain is an endpoint's way out: since when, and when it is over at the latest.
type Drain struct {
	Since time.Time `json:"since"`
	// Deadline is zero when it lasts until the last connection ends.
	Deadline time.Time `json:"deadline,omitzero"`
}
