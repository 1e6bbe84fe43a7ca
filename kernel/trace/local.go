package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// local reports whether an address belongs to the node: one of its own, loopback, or a VIP
// that is bound or routed.
func (t *tracer) local(a netip.Addr) bool {
	return a.IsLoopback() || t.node.Has(a) || t.bound(a) || slices.Contains(t.state.Routes, kernel.Route{Addr: a})
}

func (t *tracer) bound(a netip.Addr) bool {
	return slices.ContainsFunc(t.state.Addrs, func(x kernel.Addr) bool { return x.Addr == a })
}

// martian reports whether the kernel drops a packet because of its addresses. Loopback
// addresses belong on lo, and no other host sends from an address of the node. IPv6 has
// only the first of these checks.
func (t *tracer) martian(f *flight) bool {
	src, dst := f.Src.Addr(), f.Dst.Addr()
	loopback := (src.IsLoopback() || dst.IsLoopback()) && !(src.Is4() && t.routesLocalnet())
	return loopback || src.Is4() && t.local(src)
}

// routesLocalnet reports whether loopback addresses of IPv4 may be used on other devices.
func (t *tracer) routesLocalnet() bool {
	return slices.Contains(t.state.Sysctls, kernel.Sysctl{Name: "net.ipv4.conf.all.route_localnet", Value: "1"})
}

// source is the address that the kernel sends from to dst. It is dst itself if dst is
// local; an IPv6 VIP must be bound for that, not routed (measured on 6.1). Otherwise it
// is the node's primary address, or its first: routes are not known here.
func (t *tracer) source(dst netip.Addr) (netip.Addr, error) {
	if t.local(dst) && (dst.Is4() || dst.IsLoopback() || t.node.Has(dst) || t.bound(dst)) {
		return dst, nil
	}
	primary := t.node.Primary4
	if dst.Is6() {
		primary = t.node.Primary6
	}
	if primary.IsValid() {
		return primary, nil
	}
	for _, a := range t.node.Addrs {
		if own := a.Prefix.Addr(); own.Is4() == dst.Is4() && own.IsGlobalUnicast() {
			return own, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the node has no address to send from to %s", dst)
}

// virtual returns the virtual server of a packet: that of its mark, else the one at its destination.
func (t *tracer) virtual(f *flight) (kernel.VirtualKey, bool) {
	has := func(k kernel.VirtualKey) bool {
		_, found := kernel.FindVirtual(t.state.Virtuals, k)
		return found
	}
	if f.mark != 0 && !f.Echo {
		if k := kernel.MarkKey(f.family(), f.mark); has(k) {
			return k, true
		}
	}
	k := kernel.VirtualAt(f.Dst, f.Proto)
	return k, has(k)
}
