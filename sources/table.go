package sources

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"time"
)

// Table is all that one source, or all of them after Merge, wants served: complete, sorted by
// namespace and name, and not changed by anyone after it was sent.
type Table struct {
	Services []Service
	// Seen is when the source noticed the oldest change in it: the event, before anything was read
	// or parsed. Zero when it noticed none, as with its first table or a full reading.
	Seen time.Time

	apart []Service // what Services was when it was found to be so: see Apart
}

// Apart is the table with the knowledge that no service of it is in another's way: Validate found no error
// in it. Merge does not ask again, until it has other Services.
func (t Table) Apart() Table {
	t.apart = t.Services
	return t
}

func (t Table) isApart() bool { return identical(t.apart, t.Services) }

// Sort puts the services in order of namespace and name; services of equal name keep their order.
func (t Table) Sort() {
	slices.SortStableFunc(t.Services, func(a, b Service) int { return compareNames(&a, &b) })
}

// Lookup finds a service of a sorted table by its name.
func (t Table) Lookup(namespace, name string) (Service, bool) {
	i, ok := t.index(namespace, name)
	if !ok {
		return Service{}, false
	}
	return t.Services[i], true
}

func (t Table) index(namespace, name string) (int, bool) {
	want := Service{Namespace: namespace, Name: name}
	return sort.Find(len(t.Services), func(i int) int { return compareNames(&want, &t.Services[i]) })
}

// sorted reports whether the services are in the order that Sort gives them.
func (t Table) sorted() bool {
	for i := 1; i < len(t.Services); i++ {
		if compareNames(&t.Services[i-1], &t.Services[i]) > 0 {
			return false
		}
	}
	return true
}

func compareNames(a, b *Service) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// DefaultNamespace is the namespace of a service whose key has none.
const DefaultNamespace = "default"

// DefaultAffinityTimeout is how long an idle client stays with its endpoint when the service does not
// say: 3 hours, Kubernetes' v1.DefaultClientIPServiceAffinitySeconds.
const DefaultAffinityTimeout = 10800 * time.Second

// DefaultWeight is the weight of an endpoint that gives none.
const DefaultWeight = 1

// Service is one named service with everything known about it, defaults filled in.
type Service struct {
	Namespace, Name string
	Type            Type

	ClusterIPs      []netip.Addr
	ExternalIPs     []netip.Addr
	LoadBalancerIPs []VIP
	SourceRanges    []netip.Prefix // who may use the LoadBalancerIPs, host bits masked; none = everyone

	Ports []Port // in the order given

	ExternalTrafficPolicy TrafficPolicy
	InternalTrafficPolicy TrafficPolicy
	Affinity              Affinity
	AffinityTimeout       time.Duration // whole seconds; DefaultAffinityTimeout unless given, also without affinity

	HealthCheckNodePort      uint16 // 0 = none
	PublishNotReadyAddresses bool
	TrafficDistribution      TrafficDistribution
	Scheduler                string         // as IPVS names it; "" = the node's default
	DrainTimeout             *time.Duration // nil = the node's default; 0 = until the last connection ends

	Endpoints []Endpoint // sorted by address

	// Withheld is what of the service another one has, or the node cannot serve, sorted. Merge fills it in.
	Withheld []Withheld

	Origin Origin
}

// FullName is "namespace/name".
func (s Service) FullName() string { return s.Namespace + "/" + s.Name }

// Port is one port of a service.
type Port struct {
	Name       string // "" is allowed when it is the only one
	Protocol   Protocol
	Port       uint16 // on cluster, external and load balancer IPs
	TargetPort uint16 // on endpoints that do not say otherwise
	NodePort   uint16 // on the node's addresses; 0 = none
}

// VIP is a load balancer's address.
type VIP struct {
	Addr netip.Addr
	Mode IPMode
}

// Endpoint is one place that serves a service, its conditions resolved.
type Endpoint struct {
	Addr           netip.Addr
	Ports          []EndpointPort // one for each service port that it serves
	NodeName, Zone string         // "" = not known
	Weight         uint32         // 0 = drain: no new connections

	// The conditions with their defaults applied: ready absent = true, serving absent = ready,
	// terminating absent = false.
	Ready, Serving, Terminating bool

	NodeHints, ZoneHints []string // the nodes and zones that should use it; none = all
}

// EndpointPort is where an endpoint serves the service port of the same name and protocol.
type EndpointPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Origin is where a service was defined, for messages.
type Origin struct {
	Source string // "static", "file", "apiserver"
	File   string // "" for an API server
	Line   int    // counted from 1; 0 = not known
}

// compare orders origins by file and line.
func (o Origin) compare(p Origin) int {
	return cmp.Or(cmp.Compare(o.File, p.File), cmp.Compare(o.Line, p.Line))
}

// String is "file:line", as compilers and editors write it, or the name of the source.
func (o Origin) String() string {
	switch {
	case o.File == "":
		return o.Source
	case o.Line == 0:
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}
