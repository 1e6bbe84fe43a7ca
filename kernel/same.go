package kernel

import "net/netip"

// Equality of the objects that there are many of, field by field. Go compares two
// structs with padding in them, as all of these have, by a call for each nested
// struct, which takes four times as long; and Diff does little else.

func sameAddrPort(a, b *netip.AddrPort) bool { return a.Addr() == b.Addr() && a.Port() == b.Port() }

func sameKey(a, b *VirtualKey) bool { return a.Proto == b.Proto && sameAddrPort(&a.Addr, &b.Addr) }

func sameReal(a, b *Real) bool {
	return a.Weight == b.Weight && a.Forward == b.Forward &&
		sameAddrPort(&a.Key.Addr, &b.Key.Addr) && sameKey(&a.Key.Virtual, &b.Key.Virtual)
}

// sameMember is for two entries of one set.
func sameMember(a, b *Entry) bool {
	return a.Addr == b.Addr && a.Proto == b.Proto && a.Port == b.Port &&
		a.Second.Addr() == b.Second.Addr() && a.Second.Bits() == b.Second.Bits()
}

func sameRoute(a, b *Route) bool { return a.Addr == b.Addr }

func sameAddr(a, b *Addr) bool { return a.Addr == b.Addr && a.Link == b.Link }

// same is for those that there are few of.
func same[T comparable](a, b *T) bool { return *a == *b }

// compareKey and compareEntryKey are VirtualKey.Compare, sooner where both are equal.
func compareKey(a, b *VirtualKey) int {
	if sameKey(a, b) {
		return 0
	}
	return a.Compare(*b)
}

func compareEntryKey(e *Entry, k *VirtualKey) int {
	if e.Proto == k.Proto && e.Port == k.Addr.Port() && e.Addr == k.Addr.Addr() {
		return 0
	}
	return e.Key().Compare(*k)
}
