package plan

import (
	"github.com/svcproxy/svcproxy/kernel"
)

// A reading that a plan was carried out on is as that plan's state wanted it, and
// the next wanted state mostly shares what has not changed with that one: the same
// slices, in which nobody writes. What is shared need not be compared, object by
// object, to be known to be equal.

// isSettled says whether the reading is as Observed.Settled in what Diff looks at,
// so that slices that are shared with it are.
func (d *differ) isSettled() bool {
	return d.have.Settled != nil && sameReach(d.want.Policy, d.have.Settled.Policy)
}

// sameReach says whether both let Diff remove the same things of others, and all
// that is ours.
func sameReach(p, o kernel.Policy) bool {
	return !p.Hold && !o.Hold && p.DeleteUnknown == o.DeleteUnknown && p.TakeLeft == o.TakeLeft && shared(p.ExcludeCIDRs, o.ExcludeCIDRs)
}

// shared says whether two slices are one and the same.
func shared[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func sharedSets(a, b *kernel.State) bool {
	return shared(a.Sets, b.Sets) && shared(a.Entries, b.Entries)
}

// sharedVirtuals: whose a virtual server is stands in the sets.
func sharedVirtuals(a, b *kernel.State) bool {
	return shared(a.Virtuals, b.Virtuals) && sharedSets(a, b)
}

func sharedAddrs(a, b *kernel.State) bool  { return shared(a.Addrs, b.Addrs) }
func sharedRoutes(a, b *kernel.State) bool { return shared(a.Routes, b.Routes) }
