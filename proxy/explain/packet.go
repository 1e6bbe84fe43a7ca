package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/sources"
)

// anyPort is the port of a client if it does not matter.
const anyPort = 40000

// Node is the source of a packet that the node itself sends.
const Node = "node"

// strangers are addresses for documentation. One of them is the client if none is named.
var strangers = map[kernel.Family][]string{
	kernel.IPv4: {"192.0.2.254", "198.51.100.254", "203.0.113.254"},
	kernel.IPv6: {"2001:db8:ffff::254"},
}

// Packet returns the first packet of a connection to dst. from is "node", ADDRESS or
// ADDRESS:PORT; "" is a client outside. in is the device that it comes in by; "" is the
// one by which the node reaches the client.
func (f *Facts) Packet(proto kernel.Proto, dst netip.AddrPort, from, in string) (packet.Packet, error) {
	p := packet.Packet{Proto: proto, Dst: dst, In: in}
	var err error
	switch from {
	case Node:
		if in != "" {
			return p, fmt.Errorf("the node's own packets come in by no device, have %q", in)
		}
		return p, nil
	case "":
		p.Src, err = f.outside(dst.Addr(), in)
	default:
		p.Src, err = parseSource(from)
	}
	if err != nil {
		return p, err
	}
	if p.Src.Addr().Is4() != dst.Addr().Is4() {
		return p, fmt.Errorf("%s and %s are of two families", p.Src.Addr(), dst.Addr())
	}
	if f.Network != nil && in != "" {
		if _, err := f.Network.Hop(kernel.Path{Src: p.Src.Addr(), Dst: dst.Addr(), In: in}); err != nil {
			return p, fmt.Errorf("packets by %s: %w", in, err)
		}
	}
	if in == "" && f.local(p.Src.Addr()) == "" {
		if p.In = f.linkTo(p.Src.Addr()); p.In == "" {
			return p, fmt.Errorf("this node has no route to %s: say with --in where its packets come in", p.Src.Addr())
		}
	}
	return p, nil
}

func parseSource(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a.Unmap(), anyPort), nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return a, fmt.Errorf("%q: want %q, ADDRESS or ADDRESS:PORT", text, Node)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// outside returns a client that is in no network of the node. If the node has no route to
// one, the client is a neighbour, if possible in a network without backends: those would
// answer it directly.
func (f *Facts) outside(dst netip.Addr, in string) (netip.AddrPort, error) {
	for _, text := range strangers[kernel.FamilyOf(dst)] {
		a := netip.MustParseAddr(text)
		if _, link := f.network(a); link == "" && (in != "" || f.linkTo(a) != "") {
			return netip.AddrPortFrom(a, anyPort), nil
		}
	}
	for _, withBackends := range []bool{false, true} {
		for _, own := range f.Kernel.Node.Addrs {
			a := own.Prefix.Addr()
			if a.Is4() != dst.Is4() || own.Prefix.IsSingleIP() || a.IsLinkLocalUnicast() || in != "" && own.Link != in ||
				f.hasBackends(own.Prefix) != withBackends {
				continue
			}
			for a = own.Prefix.Masked().Addr().Next(); own.Prefix.Contains(a); a = a.Next() {
				if f.local(a) == "" {
					return netip.AddrPortFrom(a, anyPort), nil
				}
			}
		}
	}
	return netip.AddrPort{}, fmt.Errorf("this node has no network of %s: say with --from and --in where the packet "+
		"comes from", kernel.FamilyOf(dst))
}

// hasBackends reports whether a network has an endpoint of a service or a real server.
func (f *Facts) hasBackends(network netip.Prefix) bool {
	if slices.ContainsFunc(f.Kernel.Reals.Slice(), func(r kernel.Real) bool {
		return network.Contains(r.Key.Addr.Addr())
	}) {
		return true
	}
	if f.Fronts == nil {
		return false
	}
	return f.Fronts.Table.Services.ContainsFunc(func(s *sources.Service) bool {
		return slices.ContainsFunc(s.Endpoints, func(e sources.Endpoint) bool { return network.Contains(e.Addr) })
	})
}
