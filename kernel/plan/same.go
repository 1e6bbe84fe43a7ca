package plan

import (
	"github.com/svcproxy/svcproxy/kernel"
)

// Equality of the objects that there are many of, field by field. Go compares two
// structs with padding in them, as all of these have, by a call for each nested
// struct, which takes four times as long; and Diff does little else.

// sameMember is for two entries of one set.
func sameMember(a, b *kernel.Entry) bool {
	return a.Addr == b.Addr && a.Proto == b.Proto && a.Port == b.Port &&
		a.Second.Addr() == b.Second.Addr() && a.Second.Bits() == b.Second.Bits()
}

// same is for those that there are few of.
func same[T comparable](a, b *T) bool { return *a == *b }

// compareEntryKey is VirtualKey.Compare, sooner where both are equal.
func compareEntryKey(e *kernel.Entry, k *kernel.VirtualKey) int {
	if e.Proto == k.Proto && e.Port == k.Addr.Port() && e.Addr == k.Addr.Addr() {
		return 0
	}
	return e.Key().Compare(*k)
}
