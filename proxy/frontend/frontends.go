package frontend

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Frontends is what a node serves. It is a value: nothing in it changes after
// List returned it, and several Frontends may share memory.
type Frontends struct {
	Table  sources.Table
	Node   kernel.Node // with its zone and primary addresses resolved
	Config Config      // with the Node object's networks added

	// Fronts are sorted by Key, one for each key.
	Fronts []Front

	services pages // parallel to Table.Services
	backends int   // of all Fronts
	cut      []kernel.RealKey
	checks   []int32 // services that have a health check node port
	host     []netip.Addr
	portsAt  []netip.Addr // the node's addresses that serve node ports, sorted
	change   change
}

// Front is one address, protocol and port at which a service is reached.
type Front struct {
	Key     kernel.VirtualKey
	Service int32 // index in Table.Services
	slot    int32 // index in service.lists
	Port    int16 // index in the service's Ports
	Traits  Traits
}

// Traits say what kind of address a front has and which policies apply to it.
type Traits uint16

// The first four are kinds of addresses. A VIP can have more than one of them,
// for example if it is given as external IP and as load balancer IP.
const (
	ClusterIP Traits = 1 << iota
	ExternalIP
	LoadBalancer
	NodePort

	InternalLocal // policy Local applies to it as a cluster IP
	ExternalLocal // policy Local applies to it as any other kind
	Restricted    // only the service's source ranges may use it
	NodeAllowed   // and these contain this node
	Bound         // its address must be bound by us
	Unmasqueraded // its packets reach the backends unchanged; see Forward
	Announced     // routing daemons may be told of its address
	Marked        // reached by a firewall mark, which Key has
)

// Has reports whether all of some traits are set.
func (t Traits) Has(all Traits) bool { return t&all == all }

// Backend is an endpoint's port that gets connections. It takes 8 bytes, because
// a large table has several 100,000 of them: see Frontends.Addr and Weight.
type Backend struct {
	Endpoint int32 // index in the service's Endpoints
	Port     uint16
}

// Hairpin is an endpoint's port on this node, or on an unknown node. A packet
// that the endpoint sends to its own service and that is balanced back to it has
// the same address at both ends. It must be masqueraded, or the reply would not
// pass this node's address translation.
type Hairpin struct {
	Backend
	Proto kernel.Proto
}

// service is the part of a service's frontends that depends on its endpoints.
type service struct {
	lists    []list // one per front of the service, in the order of discovery
	hairpins []Hairpin
	local    int32 // see HealthCheck.LocalEndpoints
	cuts     bool  // some of its endpoints are cut
}

// pages is a list of services in parts. Frontends that follow each other share all parts
// but those of services that changed.
type pages [][]*service

const pageLength = 256

func (p pages) at(i int) *service { return p[i/pageLength][i%pageLength] }

// replace puts a service into its part, which is copied before if it is that of last.
func (p pages) replace(i int, s *service, last pages) {
	page := i / pageLength
	if kernel.SameSlice(p[page], last[page]) {
		p[page] = slices.Clone(p[page])
	}
	p[page][i%pageLength] = s
}

// list has the backends of one front.
type list struct {
	chosen
	port int16 // index in the service's Ports
}

// Service returns the service of a front.
func (f *Frontends) Service(x *Front) *sources.Service { return f.Table.Services.At(int(x.Service)) }

// Clients says who may use a front, and how fast; nil = everyone.
func (f *Frontends) Clients(x *Front) *sources.Clients { return f.Service(x).Clients }

// Lists are the lists that Clients name.
func (f *Frontends) Lists() sources.Lists { return f.Table.Lists }

// Scheduler returns the scheduler that distributes a front's connections: the
// service's own, or the default.
func (f *Frontends) Scheduler(x *Front) string { return f.Config.scheduler(f.Service(x)) }

func (c *Config) scheduler(s *sources.Service) string { return s.SchedulerOn(c.Scheduler) }

// Forward returns how packets reach a front's backends.
func (f *Frontends) Forward(x *Front) sources.Forward {
	if !x.Traits.Has(Unmasqueraded) {
		return sources.Masquerade
	}
	return cmp.Or(f.Service(x).Forward, f.Config.Forward)
}

// Backends returns a front's backends, sorted by address. Callers must not
// change the slice: the fronts of a service port share it.
func (f *Frontends) Backends(x *Front) []Backend {
	return f.services.at(int(x.Service)).lists[x.slot].backends
}

// Hairpins returns the hairpins of the service with index i, unsorted. Callers
// must not change the slice.
func (f *Frontends) Hairpins(i int) []Hairpin { return f.services.at(i).hairpins }

// Count returns the number of fronts, and of their backends.
func (f *Frontends) Count() (fronts, backends int) {
	return len(f.Fronts), f.backends
}

// Addr returns where a backend of the service with index i gets connections.
func (f *Frontends) Addr(i int, b Backend) netip.AddrPort {
	return netip.AddrPortFrom(f.Table.Services.At(i).Endpoints[b.Endpoint].Addr, b.Port)
}

// Weight returns the weight of a backend of the service with index i. A backend
// of weight 0 gets no new connections.
func (f *Frontends) Weight(i int, b Backend) uint32 {
	return f.Table.Services.At(i).Endpoints[b.Endpoint].Weight
}

// Limits returns the thresholds of connections of a backend of the service with index i: kernel.Real's Upper and Lower.
func (f *Frontends) Limits(i int, b Backend) (upper, lower uint32) {
	e := &f.Table.Services.At(i).Endpoints[b.Endpoint]
	return e.MaxConnections, e.ResumeConnections
}

// VIP is an address to bind.
type VIP struct {
	Addr   netip.Addr
	Traits Traits // of all its ports
}

// VIPs returns the addresses that must be bound on this node, sorted.
func (f *Frontends) VIPs() []VIP {
	vips := make([]VIP, 0, len(f.Fronts))
	for i := range f.Fronts {
		x := &f.Fronts[i]
		if !x.Traits.Has(Bound) {
			continue
		}
		if n := len(vips); n > 0 && vips[n-1].Addr == x.Key.Addr {
			vips[n-1].Traits |= x.Traits
			continue
		}
		vips = append(vips, VIP{x.Key.Addr, x.Traits})
	}
	return vips
}

// NodePortAddrs returns the node's addresses that serve node ports, sorted. Callers must
// not change the slice.
func (f *Frontends) NodePortAddrs() []netip.Addr { return f.portsAt }

// Serves reports whether anything is served in a family.
func (f *Frontends) Serves(family kernel.Family) bool {
	return slices.ContainsFunc(f.Fronts, func(x Front) bool { return x.Key.Family() == family })
}

// Find returns the index in Fronts of a key.
func (f *Frontends) Find(k kernel.VirtualKey) (int, bool) {
	return slices.BinarySearchFunc(f.Fronts, k, func(x Front, k kernel.VirtualKey) int { return x.Key.Compare(k) })
}
