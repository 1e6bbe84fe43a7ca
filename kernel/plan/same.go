package plan

import (
	"github.com/svcproxy/svcproxy/kernel"
)

// Equality field by field, for kinds with many objects. Diff does little else, and ==
// would take four times as long: Go calls a function for each nested struct with
// padding.

// sameMember compares two entries of one set.
func sameMember(a, b *kernel.Entry) bool {
	return a.Addr == b.Addr && a.Proto == b.Proto && a.Port == b.Port &&
		a.Second.Addr() == b.Second.Addr() && a.Second.Bits() == b.Second.Bits() &&
		a.Slot == b.Slot && a.ToPort == b.ToPort && a.Goto == b.Goto
}

// sameReals counts the real servers at the beginning that are equal.
func sameReals(a, b []kernel.Real) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	for i := range a {
		if !a[i].Same(&b[i]) {
			return i
		}
	}
	return n
}

// same is for kinds with few objects.
func same[T comparable](a, b *T) bool { return *a == *b }

// compareEntryKey is VirtualKey.Compare, faster where both are equal.
func compareEntryKey(e *kernel.Entry, k *kernel.VirtualKey) int {
	if e.Proto == k.Proto && e.Port == k.Port && e.Addr == k.Addr {
		return 0
	}
	return e.Key().Compare(*k)
}
