package sources

import (
	"cmp"
	"fmt"
	"net/netip"
	"sort"
	"strconv"
	"time"
)

// Table is everything that one source wants served, or all of them after Merge. It is complete and sorted by
// namespace and name. Nothing changes it after it was emitted.
type Table struct {
	Services Services
	Lists    Lists // those of the files; services of any source may name them
	// Seen is when the source noticed the oldest change in the table: the time of the event, before reading and
	// parsing. It is zero if there was no event, as for a first table or a periodic reading.
	Seen time.Time

	uncontested Services // Services as of the call of Uncontested
	since       *since   // see After; nil: not known
}

// Uncontested marks a table in which Validate found no error: no two of its services ask for the same address. If it
// is the only table, Merge does not look for contests, which are most of the cost of a merge. The mark is void once
// Services is another list.
func (t Table) Uncontested() Table {
	t.uncontested = t.Services
	return t
}

func (t Table) isUncontested() bool { return t.uncontested.Same(t.Services) }

// Sort puts the services in order of namespace and name; services of equal name keep their order.
func (t Table) Sort() {
	if t.sorted() {
		return
	}
	all := t.Services.Slice()
	SortStableFunc(all, func(a, b Service) int { return CompareNames(&a, &b) })
	for i := range all {
		*t.Services.At(i) = all[i]
	}
}

// Lookup returns the service of a sorted table with this name.
func (t Table) Lookup(namespace, name string) (Service, bool) {
	i, ok := t.Index(namespace, name)
	if !ok {
		return Service{}, false
	}
	return *t.Services.At(i), true
}

// Index returns where a sorted table has the service with this name.
func (t Table) Index(namespace, name string) (int, bool) {
	want := Service{Namespace: namespace, Name: name}
	return sort.Find(t.Services.Len(), func(i int) int { return CompareNames(&want, t.Services.At(i)) })
}

// sorted reports whether the services are in the order that Sort gives them.
func (t Table) sorted() bool {
	for i := 1; i < t.Services.Len(); i++ {
		if CompareNames(t.Services.At(i-1), t.Services.At(i)) > 0 {
			return false
		}
	}
	return true
}

// CompareNames orders services by namespace and name, as Table.Sort does.
func CompareNames(a, b *Service) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// DefaultAffinityTimeout is how long an idle client stays with its endpoint, unless the service says: 3 hours, as
// Kubernetes' v1.DefaultClientIPServiceAffinitySeconds.
const DefaultAffinityTimeout = 10800 * time.Second

// DefaultWeight is the weight of an endpoint that gives none.
const DefaultWeight = 1

// Service is one named service with its endpoints. Defaults are filled in.
type Service struct {
	Namespace, Name string
	Type            Type

	ClusterIPs      []netip.Addr
	KeepsClients    bool // keepClientAddress = true was written, so nothing warns that endpoints see clients' addresses
	TakeHostPorts   bool // served also where a program of the node listens
	ExternalIPs     []netip.Addr
	LoadBalancerIPs []VIP
	SourceRanges    []netip.Prefix // clients that may use the LoadBalancerIPs, host bits masked; none = all

	// serves the packets with this firewall mark instead of addresses; 0 = none. Ports is then as SetMark sets it
	FWMark uint32

	Ports []Port // in the order given

	ExternalTrafficPolicy TrafficPolicy
	InternalTrafficPolicy TrafficPolicy
	Affinity              Affinity
	AffinityTimeout       time.Duration // whole seconds; set also without affinity
	// Clients in one network of this prefix length have one endpoint; 0 = each client has its own.
	AffinityPrefix4, AffinityPrefix6 uint8

	HealthCheckNodePort      uint16 // 0 = none
	PublishNotReadyAddresses bool
	TrafficDistribution      TrafficDistribution
	Scheduler                string         // by its name in IPVS; "" = the node's default
	Weighted                 bool           // it names no scheduler and is of a file, where weights count: see SchedulerOn
	SchedulerFlags           SchedulerFlags // 0 = those that svcproxy gives the scheduler
	OnePacket                bool           // each datagram of a UDP port is balanced alone
	Forward                  Forward        // "" = the node's default, where the service allows it
	DrainTimeout             *time.Duration // nil = the node's default; 0 = until the last connection ends
	Announce                 *bool          // nil = external and load balancer IPs
	AnnounceMinHealthy       *int           // endpoints that are no backups, for its VIPs; nil = as the node has it
	// nil = its endpoints are not checked. Services may share one: it never changes
	HealthCheck *HealthCheck
	// nil = all clients, without a limit. Services may share one: it never changes
	Clients *Clients

	Endpoints []Endpoint // sorted by address
	Names     []Name     // further endpoints by their DNS names, in the order given

	// Legacy are values that its source reads although they are not well formed any more, in words. Doubts warn of them.
	Legacy []string

	// Withheld are the parts of the service that another service has or that the node cannot serve, sorted.
	// Merge sets it.
	Withheld []Withheld

	Origin Origin
}

// Port is one port of a service.
type Port struct {
	Name       string // "" is allowed when it is the only one
	Protocol   Protocol
	Port       uint16 // on cluster, external and load balancer IPs
	TargetPort uint16 // of endpoints that give none themselves
	NodePort   uint16 // on the node's own addresses; 0 = none
}

// Text is the name, or the number of a port that has none, or the protocol behind a mark.
func (p Port) Text() string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Port == 0:
		return p.Protocol.String()
	}
	return strconv.Itoa(int(p.Port))
}

// VIP is an address that a load balancer has for a service.
type VIP struct {
	Addr netip.Addr
	Mode IPMode
}

// Endpoint is one address that serves a service.
type Endpoint struct {
	Addr           netip.Addr
	Ports          []EndpointPort // one for each service port that it serves
	NodeName, Zone string         // "" = not known
	Weight         uint32         // 0 = drain: no new connections
	Cut            bool           // its connections end: its real servers are removed at once. No source sets it
	Spared         bool           // it is not up, and serves because too few are. No source sets it

	// The conditions of an EndpointSlice, with its defaults: absent ready and serving are true, an absent
	// terminating is false. In a services file an absent serving is as ready.
	Ready, Serving, Terminating bool

	Backup    bool // gets connections only while no other endpoint of the service port is up
	Unchecked bool // the service's health check leaves it out: it counts as up

	// At MaxConnections, 0 = no limit, it gets no new connections until it has fewer than ResumeConnections, or than
	// three quarters of MaxConnections if that is 0. Each address and port of the service counts its own.
	MaxConnections, ResumeConnections uint32

	Name *Name // the one of Service.Names that it is of; nil = its address is written

	Hints *Hints // nil = none. Few endpoints have any: a pointer takes 40 bytes less for each
}

// Hints name the nodes and zones that should use an endpoint; none = all.
type Hints struct{ Nodes, Zones []string }

// HintsOf returns nil if there are none.
func HintsOf(nodes, zones []string) *Hints {
	if len(nodes)+len(zones) == 0 {
		return nil
	}
	return &Hints{nodes, zones}
}

// NodeHints returns the nodes that should use the endpoint; none = all.
func (e *Endpoint) NodeHints() []string {
	if e.Hints == nil {
		return nil
	}
	return e.Hints.Nodes
}

// ZoneHints returns the zones that should use the endpoint; none = all.
func (e *Endpoint) ZoneHints() []string {
	if e.Hints == nil {
		return nil
	}
	return e.Hints.Zones
}

// PortOf returns the port on which an endpoint serves the service's port with an index. Ports are matched by name and
// protocol. Both lists mostly have the same order: that is looked at first, because a range has a thousand ports.
func (s *Service) PortOf(e *Endpoint, port int) (uint16, bool) {
	p := &s.Ports[port]
	serves := func(own *EndpointPort) bool { return own.Name == p.Name && own.Protocol == p.Protocol }
	if port < len(e.Ports) && serves(&e.Ports[port]) {
		return e.Ports[port].Port, true
	}
	for i := range e.Ports {
		if serves(&e.Ports[i]) {
			return e.Ports[i].Port, true
		}
	}
	return 0, false
}

// EndpointPort is the port of an endpoint for the service port with the same name and protocol.
type EndpointPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Origin is where a service is defined, for messages.
type Origin struct {
	Source string // Static, Files, Manifest or APIServer
	File   string // "" for an API server
	Line   int    // counted from 1; 0 = not known
}

// compare orders origins by file and line.
func (o Origin) compare(p Origin) int {
	return cmp.Or(cmp.Compare(o.File, p.File), cmp.Compare(o.Line, p.Line))
}

// String returns "file:line", as compilers and editors write it, or the name of the source.
func (o Origin) String() string {
	switch {
	case o.File == "":
		return o.Source
	case o.Line == 0:
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}
