package mode

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Port is one service port in one family, for modes whose rules choose endpoints.
type Port struct {
	Service *sources.Service
	Index   int // of the service
	Proto   kernel.Proto

	ClusterIPs []*frontend.Front
	VIPs       []*frontend.Front // external and load balancer IPs, in this order
	NodePorts  []*frontend.Front // one for each address of the node

	// What gets connections under each policy.
	Cluster, Local []Endpoint
	// Internal and External are the kinds of the chains that traffic goes to, "" if it
	// has no endpoints.
	Internal, External kernel.ChainKind
}

// Endpoint is where a connection may go.
type Endpoint struct {
	At     netip.AddrPort
	Weight uint32 // at least 1
	Here   bool   // it is, or may be, on this node
}

// Ports returns the ports of the service with an index. fronts are those of the service, by their indexes; those of
// other families do not count.
func (s *Scope) Ports(index int, fronts []int32) []Port {
	service := s.Frontends.Table.Services.At(index)
	of := make([][]int32, len(service.Ports))
	for _, at := range fronts {
		if x := &s.Frontends.Fronts[at]; x.Key.Family() == s.Family {
			of[x.Port] = append(of[x.Port], at)
		}
	}
	ports := make([]Port, len(of))
	for i := range of {
		ports[i] = Port{Service: service, Index: index, Proto: kernel.Proto(service.Ports[i].Protocol)}
		ports[i].sort(s.Frontends, of[i])
		ports[i].choose(s.Frontends)
	}
	return ports
}

// sort sorts the port's fronts by kind.
func (p *Port) sort(f *frontend.Frontends, fronts []int32) {
	var balanced []*frontend.Front
	for _, at := range fronts {
		x := &f.Fronts[at]
		switch {
		case x.Traits.Has(frontend.LoadBalancer):
			balanced = append(balanced, x)
		case x.Traits.Has(frontend.ExternalIP):
			p.VIPs = append(p.VIPs, x)
		case x.Traits.Has(frontend.ClusterIP):
			p.ClusterIPs = append(p.ClusterIPs, x)
		default:
			p.NodePorts = append(p.NodePorts, x)
		}
	}
	p.VIPs = append(p.VIPs, balanced...)
}

// choose finds the endpoints under each policy, and the chains that traffic goes to.
func (p *Port) choose(f *frontend.Frontends) {
	fallback := false
	outside := p.Outside()
	for _, x := range append(outside, p.ClusterIPs...) {
		found := p.usable(f, f.Backends(x))
		// A front of two kinds has the backends of a cluster IP.
		local := x.Traits.Has(frontend.ExternalLocal)
		if x.Traits.Has(frontend.ClusterIP) {
			local = x.Traits.Has(frontend.InternalLocal)
		}
		switch {
		case !local:
			p.Cluster = found
		case p.elsewhere(f, f.Backends(x)):
			fallback = true // localFallback is cluster
		case len(found) > 0:
			p.Local = found
		}
	}
	if len(p.Cluster) == 0 && len(outside)+len(p.ClusterIPs) > 0 {
		x := append(outside, p.ClusterIPs...)[0]
		p.Cluster = p.usable(f, f.Anywhere(x))
	}
	if len(p.ClusterIPs) > 0 {
		p.Internal = p.policyChain(p.ClusterIPs[0].Traits.Has(frontend.InternalLocal))
	}
	if len(outside) > 0 {
		p.External = p.policyChain(p.KeepsSource() && !fallback)
	}
}

// Outside returns the fronts that are no cluster IPs.
func (p *Port) Outside() []*frontend.Front {
	all := make([]*frontend.Front, 0, len(p.VIPs)+len(p.NodePorts)+len(p.ClusterIPs))
	return append(append(all, p.VIPs...), p.NodePorts...)
}

// KeepsSource reports whether external traffic has policy Local.
func (p *Port) KeepsSource() bool {
	outside := p.Outside()
	return len(outside) > 0 && outside[0].Traits.Has(frontend.ExternalLocal)
}

// Any reports whether the port has endpoints on any node.
func (p *Port) Any() bool { return len(p.Cluster)+len(p.Local) > 0 }

// policyChain returns the kind of the chain under a policy, "" if it has no endpoints.
func (p *Port) policyChain(local bool) kernel.ChainKind {
	switch {
	case local && len(p.Local) > 0:
		return kernel.ChainLocal
	case !local && len(p.Cluster) > 0:
		return kernel.ChainCluster
	}
	return ""
}

// usable returns the backends that get new connections.
func (p *Port) usable(f *frontend.Frontends, backends []frontend.Backend) []Endpoint {
	list := make([]Endpoint, 0, len(backends))
	for _, b := range backends {
		if w := f.Weight(p.Index, b); w > 0 {
			list = append(list, Endpoint{f.Addr(p.Index, b), w, f.MaybeHere(p.Index, b)})
		}
	}
	return list
}

// elsewhere reports whether a backend is on another node.
func (p *Port) elsewhere(f *frontend.Frontends, backends []frontend.Backend) bool {
	for _, b := range backends {
		if !f.Here(p.Index, b) {
			return true
		}
	}
	return false
}

// ByService lists the fronts of each service, by their indexes.
func ByService(f *frontend.Frontends) [][]int32 {
	fronts := make([][]int32, f.Table.Services.Len())
	for i := range f.Fronts {
		s := f.Fronts[i].Service
		fronts[s] = append(fronts[s], int32(i))
	}
	return fronts
}
