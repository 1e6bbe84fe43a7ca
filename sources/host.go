package sources

import (
	"net/netip"
	"slices"
)

// HostFacts are what Doubts and Merge may know about the node that serves a table. Rules whose facts are zero are
// skipped, so that a file can also be checked on another machine. Facts never make a table invalid: they make Doubts,
// and Merge withholds what the node cannot serve.
type HostFacts struct {
	NodeName   string         // "" = not known
	LocalCIDRs []netip.Prefix // an endpoint without a node name is local if it is in one of them

	Addrs    []netip.Addr // the node's own addresses, without VIPs that svcproxy has bound
	Gateways []netip.Addr // the next hops of its default routes

	NodePorts NodePortAddrs // at which of Addrs node ports are served
	Own       []Listener    // of svcproxy itself, as the configuration has them; Program is the key
	// Listeners are sockets of other programs of the host, sorted. Those at ports that no service asks for may be left
	// out.
	Listeners []Listener
	// Serving are the addresses and ports that the kernel served for an earlier run, sorted; node ports by their claims.
	Serving []Claim

	Mode       string   // "" = not known
	Scheduler  string   // of services that name none; "" = none: see Service.SchedulerOn
	Schedulers []string // those that the kernel has; nil = not known

	Forward Forward // of services that name none; "" = Masquerade
	MTU     int     // the largest of the node's links, if it is larger than Ethernet's

	Moved bool // keepalived moves VIPs between this node and another one (announce.mode vrrp)

	// NoLimits is why the node refuses no clients, so that a service with Clients cannot be served; "" = it does, or is
	// not known to lack anything.
	NoLimits string

	MasqueradeMark uint32 // the bit of firewall marks that masquerades; 0 = not known

	// ClusterIPsKeepClients: neither clusterCIDR nor masqueradeAll is set, so packets to a cluster IP keep the client's
	// address.
	ClusterIPsKeepClients bool
}

// NodePortAddrs are where a node serves node ports. The zero value is all of its addresses.
type NodePortAddrs struct {
	CIDRs    []netip.Prefix // addresses in them; a family without any has all
	Primary  []netip.Addr   // these alone, if it is not nil
	Loopback bool           // 127.0.0.0/8, too
}

func (n *NodePortAddrs) equal(o *NodePortAddrs) bool {
	return n.Loopback == o.Loopback && (n.Primary == nil) == (o.Primary == nil) && equal(n.Primary, o.Primary) &&
		equal(n.CIDRs, o.CIDRs)
}

// The names of the modes.
const (
	ModeIPVS      = "ipvs"
	ModeIPTables  = "iptables"
	ModeNFTables  = "nftables"
	ModeUserspace = "userspace"
)

// Modes lists the names, in the order of preference.
func Modes() []string { return []string{ModeIPVS, ModeNFTables, ModeIPTables, ModeUserspace} }

// onlyMasquerades reports whether the mode can only masquerade, whatever services name, and has no firewall marks.
func (h *HostFacts) onlyMasquerades() bool { return h.Mode != "" && h.Mode != ModeIPVS }

// Local reports whether an endpoint is on this node.
func (h HostFacts) Local(e Endpoint) bool { return e.On(h.NodeName, h.LocalCIDRs) }

// On reports whether the endpoint is on a node with this name. One without a node name is, if it is in one of the
// node's networks.
func (e *Endpoint) On(node string, local []netip.Prefix) bool {
	if e.NodeName != "" {
		return e.NodeName == node
	}
	return slices.ContainsFunc(local, func(p netip.Prefix) bool { return p.Contains(e.Addr) })
}

// scheduler returns the scheduler of a service.
func (h HostFacts) scheduler(s *Service) string { return s.SchedulerOn(h.Scheduler) }

// owns reports whether an address is the node's own. It is false if the node's addresses are not known.
func (h HostFacts) owns(a netip.Addr) bool { return slices.Contains(h.Addrs, a) }

// cutOff reports whether a VIP would cut the node off from its default gateway if it were bound.
func (h HostFacts) cutOff(vip netip.Addr) bool {
	return slices.Contains(h.Gateways, vip) && !h.owns(vip)
}

// equal reports whether two facts are equal.
func (h *HostFacts) equal(o *HostFacts) bool {
	return h.NodeName == o.NodeName && h.Mode == o.Mode && h.Scheduler == o.Scheduler &&
		h.ClusterIPsKeepClients == o.ClusterIPsKeepClients && h.Moved == o.Moved &&
		h.Forward == o.Forward && h.MTU == o.MTU &&
		(h.Schedulers == nil) == (o.Schedulers == nil) && equal(h.Schedulers, o.Schedulers) &&
		equal(h.LocalCIDRs, o.LocalCIDRs) && h.sameNode(o)
}

// sameNode reports whether all facts that Merge depends on are equal.
func (h *HostFacts) sameNode(o *HostFacts) bool {
	return h.onlyMasquerades() == o.onlyMasquerades() && h.most() == o.most() && h.MasqueradeMark == o.MasqueradeMark &&
		h.NoLimits == o.NoLimits &&
		equal(h.Addrs, o.Addrs) && equal(h.Gateways, o.Gateways) && equal(h.Listeners, o.Listeners) &&
		equal(h.Own, o.Own) && equal(h.Serving, o.Serving) && h.NodePorts.equal(&o.NodePorts)
}

// leavesLimits is why the node does not serve a service with allow, deny or limits; "" if it does, or the service has
// none of them.
func (h *HostFacts) leavesLimits(s *Service) string {
	if h.NoLimits == "" || s.Clients == nil {
		return ""
	}
	return "allow, deny and limits need nftables: " + h.NoLimits
}
