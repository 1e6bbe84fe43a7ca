package frontend

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// hostAddrs returns the node's own addresses, sorted.
func hostAddrs(n kernel.Node) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(n.Addrs))
	for _, a := range n.Addrs {
		addrs = append(addrs, a.Prefix.Addr())
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

// nodePortAddrs returns the addresses of the node that serve node ports, sorted.
// Loopback and link-local addresses do not, and neither does a cluster IP that
// another proxy bound to an interface of its own. An external or load balancer
// IP that is an address of the host does.
func nodePortAddrs(t sources.Table, n kernel.Node, c Config, host []netip.Addr) []netip.Addr {
	addrs := slices.DeleteFunc(slices.Clone(host), func(a netip.Addr) bool { return !servable(a) || !c.nodePortAt(a, n) })
	for i := range t.Services.Len() {
		for _, vip := range t.Services.At(i).ClusterIPs {
			if at, found := slices.BinarySearchFunc(addrs, vip, netip.Addr.Compare); found {
				addrs = slices.Delete(addrs, at, at+1)
			}
		}
	}
	return addrs
}

// nodePortAt reports whether the configuration selects an address of the node
// for node ports.
func (c Config) nodePortAt(a netip.Addr, n kernel.Node) bool {
	if c.NodePortPrimary {
		return a == n.Primary4 || a == n.Primary6
	}
	ofFamily := false
	for _, p := range c.NodePortAddresses {
		if p.Contains(a) {
			return true
		}
		ofFamily = ofFamily || p.Addr().Is4() == a.Is4()
	}
	return !ofFamily
}
