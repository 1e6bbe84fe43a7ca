package verify

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Same says whether two readings agree in what is in a part. It is for a reader
// that has all of both; one that reads a part compares as it goes, and shares
// SameFew and SameVIPs.
func (p Shard) Same(a, b *kernel.Observed) bool {
	switch {
	case !SameFew(a, b),
		!sameWhere(a.Entries, b.Entries, func(e *kernel.Entry) bool { return p.HasEntries(e.Set) }),
		p.HasVirtuals() && (a.FWMark != b.FWMark || !slices.Equal(a.Virtuals, b.Virtuals)),
		p.HasVIPs() && !SameVIPs(a, b):
		return false
	}
	return sameWhere(a.Reals, b.Reals, func(r *kernel.Real) bool { return p.HasReals(r.Key.Virtual) })
}

// SameFew says whether two readings agree in what is in every part.
func SameFew(a, b *kernel.Observed) bool {
	return a.Names == b.Names && a.Timeouts == b.Timeouts &&
		slices.Equal(a.Sysctls, b.Sysctls) && slices.Equal(a.Saved, b.Saved) && slices.Equal(a.Sets, b.Sets) &&
		slices.EqualFunc(a.Chains, b.Chains, sameChain) && slices.Equal(a.Firewall, b.Firewall)
}

// sameChain also has as the same what was written and what iptables-save prints of it.
func sameChain(a, b kernel.Chain) bool {
	return a == b || kernel.Chain.Compare(a, b) == 0 && kernel.SameRules(a.Rules, b.Rules)
}

// SameVIPs says whether two readings agree in how VIPs are made local, in links and
// in the node.
func SameVIPs(a, b *kernel.Observed) bool {
	return slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.Routes, b.Routes) && slices.Equal(a.Links, b.Links) &&
		slices.Equal(a.Neighbors, b.Neighbors) && slices.Equal(a.Answered, b.Answered) && sameNode(&a.Node, &b.Node)
}

func sameNode(n, o *kernel.Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && slices.Equal(n.Addrs, o.Addrs) &&
		n.Primary4 == o.Primary4 && n.Primary6 == o.Primary6 && slices.Equal(n.Gateways, o.Gateways) &&
		n.BrNetfilter == o.BrNetfilter && slices.Equal(n.Bridges, o.Bridges) && n.Release == o.Release
}

// sameWhere says whether two slices agree in what is counted in.
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
