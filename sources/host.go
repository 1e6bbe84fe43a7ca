package sources

import (
	"net/netip"
	"slices"
)

// HostFacts is what Validate and Merge may know of the node that will serve a table. The rules whose facts
// are zero are skipped, so that a file can also be checked on another machine. A fact of the host never makes
// a table invalid: it is a warning of Validate's, and Merge leaves out no more than it must.
type HostFacts struct {
	NodeName   string         // "" = not known
	LocalCIDRs []netip.Prefix // an endpoint without a node name is local if inside one

	Addrs    []netip.Addr // the node's own addresses, without the VIPs svcproxy itself has bound
	Gateways []netip.Addr // where its default routes go

	Scheduler  string   // what a service without its own gets; "" = not known
	Schedulers []string // those the kernel has; nil = not known

	// Unmasqueraded: neither clusterCIDR nor masqueradeAll is set, so what comes to a cluster IP goes on
	// with the client's address.
	Unmasqueraded bool
}

// Local says whether an endpoint is on this node.
func (h HostFacts) Local(e Endpoint) bool {
	if e.NodeName != "" {
		return e.NodeName == h.NodeName
	}
	return slices.ContainsFunc(h.LocalCIDRs, func(p netip.Prefix) bool { return p.Contains(e.Addr) })
}

// owns says whether an address is the node's; never, when its addresses are not known.
func (h HostFacts) owns(a netip.Addr) bool { return slices.Contains(h.Addrs, a) }

// cutOff says whether a VIP, bound on the node, would keep it from its default gateway.
func (h HostFacts) cutOff(vip netip.Addr) bool {
	return slices.Contains(h.Gateways, vip) && !h.owns(vip)
}

// sameNode says whether all that Merge looks at is the same.
func (h HostFacts) sameNode(o HostFacts) bool {
	return equal(h.Addrs, o.Addrs) && equal(h.Gateways, o.Gateways)
}
