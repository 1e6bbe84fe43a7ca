package frontend

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// on resolves what the configuration, the Node object and the machine say about
// the node. The configuration wins over the Node object, and that over the
// machine; addresses and prefixes are resolved per family.
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

// Primary returns a node with the primary addresses that it has under the configuration.
func (c Config) Primary(n kernel.Node) kernel.Node {
	n, _ = c.on(n)
	return n
}

// Families are the address families of the host.
func (c Config) Families() []kernel.Family {
	if c.IPv6 {
		return []kernel.Family{kernel.IPv4, kernel.IPv6}
	}
	return []kernel.Family{kernel.IPv4}
}
