package plan

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Same reports whether two readings agree on a shard. It is for a caller that has all of
// both readings. A reader of a single shard compares while it reads, and uses SameFew
// and SameVIPs.
func (s Shard) Same(a, b *kernel.Observed) bool {
	switch {
	case !SameFew(a, b),
		!a.Entries.Where(s.hasEntry).Equal(b.Entries.Where(s.hasEntry)),
		s.HasVirtuals() && !slices.Equal(a.Virtuals, b.Virtuals),
		s.HasVIPs() && !SameVIPs(a, b):
		return false
	}
	return sameWhere(a.Reals.Slice(), b.Reals.Slice(), func(r *kernel.Real) bool { return s.HasReals(r.Key.Virtual) })
}

func (s Shard) hasEntry(e kernel.Entry) bool { return s.HasEntries(e.Set) }

// SameFew reports whether two readings agree on what belongs to every shard: the kinds
// of which there are few objects, whatever the table.
func SameFew(a, b *kernel.Observed) bool {
	return a.Names == b.Names && a.Timeouts == b.Timeouts && slices.Equal(a.Saved, b.Saved) &&
		slices.Equal(a.Firewall, b.Firewall) && slices.Equal(a.Hidden, b.Hidden) && a.Unseen == b.Unseen &&
		sameKinds(a, b, func(k kernel.Kind, by kernel.Adapter) bool {
			return k != kernel.KindEntry && by != kernel.IPVSAdapter && by != kernel.LinkAdapter
		})
}

// SameVIPs reports whether two readings agree on what kernel/link reads: how VIPs are
// made local, links, proxy neighbours and the node.
func SameVIPs(a, b *kernel.Observed) bool {
	return slices.Equal(a.Answered, b.Answered) && a.Node.Equal(b.Node) &&
		sameKinds(a, b, func(_ kernel.Kind, by kernel.Adapter) bool { return by == kernel.LinkAdapter })
}

// sameKinds reports whether two readings have equal objects of some kinds.
func sameKinds(a, b *kernel.Observed, in func(kernel.Kind, kernel.Adapter) bool) bool {
	for k, row := range kernel.Rows {
		if row.Objects != nil && in(kernel.Kind(k), row.Adapter) && !row.Objects.Equal(a.State, b.State) {
			return false
		}
	}
	return true
}

// sameWhere reports whether two slices agree on the elements that in accepts.
func sameWhere[T comparable](a, b []T, in func(*T) bool) bool {
	j := 0
	next := func() *T {
		for ; j < len(b); j++ {
			if in(&b[j]) {
				j++
				return &b[j-1]
			}
		}
		return nil
	}
	for i := range a {
		if !in(&a[i]) {
			continue
		}
		if other := next(); other == nil || *other != a[i] {
			return false
		}
	}
	return next() == nil
}
