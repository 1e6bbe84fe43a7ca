package iptables

import (
	"net/netip"
	"strconv"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// port is one service port in one family.
type port struct {
	*writer
	service *sources.Service
	index   int // of the service
	name    string
	hash    string
	proto   kernel.Proto

	clusterIPs []*frontend.Front
	vips       []*frontend.Front // external and load balancer IPs, in this order
	nodePorts  []*frontend.Front // one for each address of the node

	// What gets connections under each policy.
	cluster, local []endpoint
	// internal and external are the kinds of the chains that traffic goes to, "" if it
	// has no endpoints.
	internal, external kernel.ChainKind
}

// endpoint is where a connection may go.
type endpoint struct {
	at     netip.AddrPort
	weight uint32 // at least 1
	here   bool   // it is, or may be, on this node
}

// newPort returns a port with its fronts.
func (w *writer) newPort(index, number int, fronts []int32) port {
	s := w.Frontends.Table.Services.At(index)
	p := port{writer: w, service: s, index: index, proto: kernel.Proto(s.Ports[number].Protocol),
		name: portName(s, &s.Ports[number])}
	var balanced []*frontend.Front
	for _, at := range fronts {
		x := &w.Frontends.Fronts[at]
		switch {
		case x.Traits.Has(frontend.LoadBalancer):
			balanced = append(balanced, x)
		case x.Traits.Has(frontend.ExternalIP):
			p.vips = append(p.vips, x)
		case x.Traits.Has(frontend.ClusterIP):
			p.clusterIPs = append(p.clusterIPs, x)
		default:
			p.nodePorts = append(p.nodePorts, x)
		}
	}
	p.vips = append(p.vips, balanced...)
	p.hash = portHash(p.name, p.proto)
	return p
}

// choose finds the endpoints under each policy, and the chains that traffic goes to.
func (p *port) choose() {
	fallback := false
	outside := p.outside()
	for _, x := range append(outside, p.clusterIPs...) {
		found := p.usable(p.Frontends.Backends(x))
		// A front of two kinds has the backends of a cluster IP.
		local := x.Traits.Has(frontend.ExternalLocal)
		if x.Traits.Has(frontend.ClusterIP) {
			local = x.Traits.Has(frontend.InternalLocal)
		}
		switch {
		case !local:
			p.cluster = found
		case p.elsewhere(p.Frontends.Backends(x)):
			fallback = true // localFallback is cluster
		case len(found) > 0:
			p.local = found
		}
	}
	if len(p.cluster) == 0 && len(outside)+len(p.clusterIPs) > 0 {
		x := append(outside, p.clusterIPs...)[0]
		p.cluster = p.usable(p.Frontends.Anywhere(x))
	}
	if len(p.clusterIPs) > 0 {
		p.internal = p.policyChain(p.clusterIPs[0].Traits.Has(frontend.InternalLocal))
	}
	if len(outside) > 0 {
		p.external = p.policyChain(p.keepsSource() && !fallback)
	}
}

// outside returns the fronts that are no cluster IPs.
func (p *port) outside() []*frontend.Front {
	all := make([]*frontend.Front, 0, len(p.vips)+len(p.nodePorts)+len(p.clusterIPs))
	return append(append(all, p.vips...), p.nodePorts...)
}

// keepsSource reports whether external traffic has policy Local.
func (p *port) keepsSource() bool {
	outside := p.outside()
	return len(outside) > 0 && outside[0].Traits.Has(frontend.ExternalLocal)
}

// policyChain returns the kind of the chain under a policy, "" if it has no endpoints.
func (p *port) policyChain(local bool) kernel.ChainKind {
	switch {
	case local && len(p.local) > 0:
		return kernel.ChainLocal
	case !local && len(p.cluster) > 0:
		return kernel.ChainCluster
	}
	return ""
}

// usable returns the backends that get new connections.
func (p *port) usable(backends []frontend.Backend) []endpoint {
	list := make([]endpoint, 0, len(backends))
	for _, b := range backends {
		if w := p.Frontends.Weight(p.index, b); w > 0 {
			list = append(list, endpoint{p.Frontends.Addr(p.index, b), w, p.Frontends.MaybeHere(p.index, b)})
		}
	}
	return list
}

// elsewhere reports whether a backend is on another node.
func (p *port) elsewhere(backends []frontend.Backend) bool {
	for _, b := range backends {
		if !p.Frontends.Here(p.index, b) {
			return true
		}
	}
	return false
}

// chain returns the full name of a chain of the port.
func (p *port) chain(k kernel.ChainKind) string { return p.Config.Names.Hashed(k, p.hash) }

// comment is the match with the port's name and more text.
func (p *port) comment(more string) string { return mode.Comment(p.name + more) }

// to matches packets to a front.
func (p *port) to(x *frontend.Front, why string) string {
	return "-d " + single(x.Key.Addr) + " " + p.dport(x.Key.Port, why)
}

// dport matches packets to a port of the protocol.
func (p *port) dport(number uint16, why string) string {
	proto := p.proto.String()
	return "-p " + proto + " " + p.comment(why) + "-m " + proto + " --dport " + strconv.Itoa(int(number)) + " "
}

// single is an address as iptables-save prints it.
func single(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
