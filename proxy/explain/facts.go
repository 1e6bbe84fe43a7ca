package explain

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Facts are what an explanation is made of.
type Facts struct {
	Kernel kernel.Observed // sorted
	// Fronts is what the sources want this node to serve; nil if that is not known.
	Fronts *frontend.Frontends
	// Health is what health checks and the operator's orders made of endpoints; nil without a daemon that answers.
	Health map[Endpoint]Health
	// Elsewhere says of VIPs that another host has who has them, by what svcproxy knows: another host answered, or
	// keepalived gave them to the other node of a pair.
	Elsewhere map[netip.Addr]string
	// Network is nil for a kernel that is known from a text alone.
	Network Network
	// Connection returns what the kernel keeps of a client's connection; nil if it is not known.
	Connection func(v kernel.Virtual, client netip.AddrPort) (kernel.Connection, error)
	// Order returns the real servers of a virtual server in the order of the kernel's list;
	// nil if it is not known.
	Order func(kernel.VirtualKey) ([]netip.AddrPort, error)
	// AnySource: the source and device of a packet from outside stand for all clients. A rule that takes only some of
	// these may take the packet.
	AnySource bool
}

// Endpoint is a port of a backend.
type Endpoint struct {
	Proto kernel.Proto
	Addr  netip.AddrPort
}

// Health is what health checks and the operator's orders made of an endpoint.
type Health struct {
	Text string // in words
	Up   bool   // it answered the last of its checks
	Down bool   // it does not answer its checks; in a panic it gets connections nevertheless
	// Silent says that nothing comes back from it to its clients; "" if something does, or it is not known.
	Silent string
}

// Network answers questions about this node's kernel that a reading does not answer.
type Network interface {
	Hop(kernel.Path) (kernel.Hop, error)
	Sysctl(name string) string // "" if it is not known
}

// hop asks for a route. ok is false if it is not known.
func (f *Facts) hop(q kernel.Path) (h kernel.Hop, ok bool) {
	if f.Network == nil {
		return h, false
	}
	h, err := f.Network.Hop(q)
	return h, err == nil
}

// sysctl returns a kernel parameter, "" if it is not known.
func (f *Facts) sysctl(name string) string {
	if f.Network != nil {
		return f.Network.Sysctl(name)
	}
	for _, s := range f.Kernel.Sysctls {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// local says by what an address is local to the node, "" if it is not.
func (f *Facts) local(a netip.Addr) string {
	k := &f.Kernel
	if link := k.Node.LinkOf(a); link != "" {
		return "an address of " + link
	}
	if i := slices.IndexFunc(k.Addrs, func(x kernel.Addr) bool { return x.Addr == a }); i >= 0 {
		return "bound to " + k.Addrs[i].Link
	}
	if slices.Contains(k.Routes, kernel.Route{Addr: a}) {
		return "by a local route of svcproxy"
	}
	if a.IsLoopback() {
		return "loopback"
	}
	if h, ok := f.hop(kernel.Path{Dst: a}); ok && h.Kind == kernel.LocalRoute {
		return "by a local route of another program"
	}
	return ""
}

// network returns a network of the node that has an address, and its link.
func (f *Facts) network(a netip.Addr) (netip.Prefix, string) {
	for _, own := range f.Kernel.Node.Addrs {
		if own.Prefix.Contains(a) {
			return own.Prefix.Masked(), own.Link
		}
	}
	return netip.Prefix{}, ""
}

// connected reports whether an address is in a network of a link.
func (f *Facts) connected(a netip.Addr, link string) bool {
	return slices.ContainsFunc(f.Kernel.Node.Addrs, func(own kernel.NodeAddr) bool {
		return own.Link == link && own.Prefix.Contains(a)
	})
}

// linkTo returns the device by which packets to an address leave, and so those from it
// should come in. It is "" if there is none or the address is local.
func (f *Facts) linkTo(a netip.Addr) string {
	if f.local(a) != "" {
		return ""
	}
	if f.Network != nil {
		if h, ok := f.hop(kernel.Path{Dst: a}); ok && h.Kind == kernel.Unicast {
			return h.Link
		}
		return ""
	}
	if _, link := f.network(a); link != "" {
		return link
	}
	if a.Is4() {
		return f.Kernel.Node.LinkOf(f.Kernel.Node.Primary4)
	}
	return f.Kernel.Node.LinkOf(f.Kernel.Node.Primary6)
}

// front returns the front at an address and port, nil if there is none.
func (f *Facts) front(k kernel.VirtualKey) *frontend.Front {
	if f.Fronts == nil {
		return nil
	}
	if i, found := f.Fronts.Find(k); found {
		return &f.Fronts.Fronts[i]
	}
	return nil
}

// service returns the service of a front, nil if there is no front.
func (f *Facts) service(x *frontend.Front) *sources.Service {
	if x == nil {
		return nil
	}
	return f.Fronts.Service(x)
}
