package packet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Node is the node that a packet passes: what its kernel is made of, which must be sorted.
type Node struct {
	State *kernel.State
	Facts kernel.Node

	parsed map[chainKey]ownChain
}

// rules returns the rules of a chain of ours, and whether there is one. A built-in chain without rules of ours is not
// in the state.
func (h *Node) rules(f kernel.Family, table, name string) (rules []Rule, found bool) {
	key := chainKey{f, table, name}
	if known, asked := h.parsed[key]; asked {
		return known.rules, known.found
	}
	at := slices.IndexFunc(h.State.Chains, func(c kernel.Chain) bool {
		return c.Name == name && c.Table == table && c.Family == f
	})
	if h.parsed == nil {
		h.parsed = make(map[chainKey]ownChain)
	}
	if found = at >= 0; found {
		rules = parseChains(h.State.Chains[at].Rules)[""]
	}
	h.parsed[key] = ownChain{rules, found}
	return rules, found
}

// ownChain is a chain of ours. found is false for a name that no chain has: targets of other programs are asked often.
type ownChain struct {
	rules []Rule
	found bool
}

// local reports whether an address belongs to the node: one of its own, loopback, or a VIP
// that is bound or routed.
func (h *Node) local(a netip.Addr) bool {
	return a.IsLoopback() || h.Facts.Has(a) || h.bound(a) || slices.Contains(h.State.Routes, kernel.Route{Addr: a})
}

func (h *Node) bound(a netip.Addr) bool {
	return slices.ContainsFunc(h.State.Addrs, func(x kernel.Addr) bool { return x.Addr == a })
}

// martian reports whether the kernel drops a packet because of its addresses. Loopback
// addresses belong on lo, and no other host sends from an address of the node. IPv6 has
// only the first of these checks.
func (h *Node) martian(f *flight) bool {
	src, dst := f.Src.Addr(), f.Dst.Addr()
	loopback := (src.IsLoopback() || dst.IsLoopback()) && !(src.Is4() && h.routesLocalnet())
	return loopback || src.Is4() && h.local(src)
}

// routesLocalnet reports whether loopback addresses of IPv4 may be used on other devices.
func (h *Node) routesLocalnet() bool {
	return slices.Contains(h.State.Sysctls, kernel.Sysctl{Name: "net.ipv4.conf.all.route_localnet", Value: "1"})
}

// source is the address that the kernel sends from to dst. It is dst itself if dst is
// local; an IPv6 VIP must be bound for that, not routed (measured on 6.1). Otherwise it
// is the node's primary address, or its first: routes are not known here.
func (h *Node) source(dst netip.Addr) (netip.Addr, error) {
	if h.local(dst) && (dst.Is4() || dst.IsLoopback() || h.Facts.Has(dst) || h.bound(dst)) {
		return dst, nil
	}
	primary := h.Facts.Primary4
	if dst.Is6() {
		primary = h.Facts.Primary6
	}
	if primary.IsValid() {
		return primary, nil
	}
	for _, a := range h.Facts.Addrs {
		if own := a.Prefix.Addr(); own.Is4() == dst.Is4() && own.IsGlobalUnicast() {
			return own, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the node has no address to send from to %s", dst)
}

// virtual returns the virtual server of a packet: that of its mark, else the one at its destination.
func (h *Node) virtual(f *View) (kernel.VirtualKey, bool) {
	has := func(k kernel.VirtualKey) bool {
		_, found := kernel.FindVirtual(h.State.Virtuals, k)
		return found
	}
	if f.Mark != 0 && !f.Echo {
		if k := kernel.MarkKey(f.family(), f.Mark); has(k) {
			return k, true
		}
	}
	k := kernel.VirtualAt(f.Dst, f.Proto)
	return k, has(k)
}

type chainKey struct {
	kernel.Family
	table, name string
}
