package plan

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// Equality of the objects that there are many of, field by field. Go compares two
// structs with padding in them, as all of these have, by a call for each nested
// struct, which takes four times as long; and Diff does little else.

func sameAddrPort(a, b *netip.AddrPort) bool { return a.Addr() == b.Addr() && a.Port() == b.Port() }

func sameReal(a, b *kernel.Real) bool {
	return a.Weight == b.Weight && a.Forward == b.Forward &&
		sameAddrPort(&a.Key.Addr, &b.Key.Addr) && a.Key.Virtual.Same(&b.Key.Virtual)
}

// sameMember is for two entries of one set.
func sameMember(a, b *kernel.Entry) bool {
	return a.Addr == b.Addr && a.Proto == b.Proto && a.Port == b.Port &&
		a.Second.Addr() == b.Second.Addr() && a.Second.Bits() == b.Second.Bits()
}

func sameRoute(a, b *kernel.Route) bool { return a.Addr == b.Addr }

func sameAddr(a, b *kernel.Addr) bool { return a.Addr == b.Addr && a.Link == b.Link }

// same is for those that there are few of.
func same[T comparable](a, b *T) bool { return *a == *b }

// compareEntryKey is VirtualKey.Compare, sooner where both are equal.
func compareEntryKey(e *kernel.Entry, k *kernel.VirtualKey) int {
	if e.Proto == k.Proto && e.Port == k.Addr.Port() && e.Addr == k.Addr.Addr() {
		return 0
	}
	return e.Key().Compare(*k)
}
