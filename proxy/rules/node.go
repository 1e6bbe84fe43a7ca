package rules

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// NodeObject is what a Kubernetes Node object says of this node. Its zero says nothing.
type NodeObject struct {
	Zone      string
	Addresses []netip.Addr   // in the object's order; the first of a family is the primary one
	PodCIDRs  []netip.Prefix // at most one of a family
}

// on gives a node and the configuration on it as they count together. What an administrator has written
// goes before what a Node object says, and that before what the machine shows; addresses and prefixes each
// by family.
func (c Config) on(n kernel.Node) (kernel.Node, Config) {
	n.Zone = cmp.Or(n.Zone, c.Object.Zone)
	for _, a := range slices.Backward(slices.Concat([]netip.Addr{c.BindAddress}, c.NodeAddresses, c.Object.Addresses)) {
		switch {
		case !a.IsValid() || a.IsUnspecified():
		case a.Is4():
			n.Primary4 = a
		default:
			n.Primary6 = a
		}
	}
	for _, p := range c.Object.PodCIDRs {
		if !slices.ContainsFunc(c.LocalCIDRs, func(own netip.Prefix) bool { return own.Addr().Is4() == p.Addr().Is4() }) {
			c.LocalCIDRs = append(slices.Clone(c.LocalCIDRs), p)
		}
	}
	return n, c
}
