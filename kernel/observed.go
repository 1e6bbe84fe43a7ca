package kernel

import (
	"net/netip"
	"slices"
)

// Observed is one reading of the kernel: the owned objects, the virtual and real servers
// of all programs, and other facts that Diff and the rules need. It has nothing that
// the loop remembers: that is Memory.
type Observed struct {
	State
	Conns []Conns // of State.Reals, by index
	// Fresh says that Conns was read in this round. Only then may Diff remove a real
	// server that has no connections.
	Fresh bool

	Node  Node
	Names Names

	// Saved lists the sysctls and IPVS timeouts that svcproxy changed since boot, with
	// their values before, sorted by name.
	Saved []Saved
	// Record is what a file says about virtual servers from before this process.
	Record Record
	// Native: package nft writes sets and chains. Ops of one phase are one transaction then, and no entry of a set may
	// contain another.
	Native bool
	// OtherSets and OtherEntries are our sets in the back end that is not written: ipset or package nft. They own
	// virtual servers after a change of back ends.
	OtherSets    []Set
	OtherEntries Entries
	// Relayed: the virtual servers are those of the relay in this process, and so all of
	// them are owned. InIPVS lists the exceptions, sorted: IPVS still has these, from
	// another mode or another program. A wanted one moves to the relay.
	Relayed bool
	InIPVS  []VirtualKey
	// Answered lists proxy neighbours created by other programs, sorted. Diff neither
	// adds nor removes these.
	Answered []Neighbor
	// Firewall lists the base chains with rules of other programs that our packets pass, in the order of
	// SortFirewall.
	Firewall []BaseChain
	// Hidden lists tables that iptables-save cannot print because another program added native nft rules: "iptables
	// filter". Our chains in them are assumed to be as last written; at a start they are written again.
	Hidden []string
	// Unseen is why the back end of iptables that is not written could not be read, in one line, or "". Others
	// are then those of an earlier reading.
	Unseen string
}

// Conns counts a real server's connections. Active are established ones;
// Inactive are half-closed, in TIME_WAIT, or UDP; Persist are templates.
type Conns struct{ Active, Inactive, Persist uint32 }

// Saved is a kernel parameter that svcproxy changed: its value before, and ours.
type Saved struct{ Name, Before, Ours string }

// Node is what the rules need to know about this machine.
type Node struct {
	Name string
	Zone string
	// Addrs lists the node's addresses, sorted, without loopback and without those of
	// our own device.
	Addrs []NodeAddr
	// Primary4 and Primary6 are the source addresses of the default routes, zero if
	// there is none.
	Primary4, Primary6 netip.Addr
	// Gateways are the next hops of the default routes.
	Gateways []netip.Addr
	// Advertised are the links on which a router advertisement gave the kernel a default route, sorted. It forgets these
	// routes when it begins to forward, unless AcceptRA is 2.
	Advertised []string
	// BrNetfilter says that bridged packets pass iptables. Without it no rule may use -m
	// physdev, which would load the module.
	BrNetfilter bool
	// Bridges are the links of Addrs that are bridges, sorted by name.
	Bridges []Bridge
	// MTU is the largest one among the links of Addrs, if it is larger than Ethernet's 1500,
	// else 0.
	MTU int
	// Release is the running kernel's version: {6, 1}.
	Release Release
}

// Equal reports whether two readings of a node are equal. It is asked in every sync, and a
// comparison by reflection would cost a tenth of a small one.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && n.Primary4 == o.Primary4 && n.Primary6 == o.Primary6 &&
		n.BrNetfilter == o.BrNetfilter && n.Release == o.Release && n.MTU == o.MTU &&
		slices.Equal(n.Addrs, o.Addrs) && slices.Equal(n.Gateways, o.Gateways) && slices.Equal(n.Advertised, o.Advertised) &&
		slices.Equal(n.Bridges, o.Bridges)
}

// Has reports whether an address belongs to the node.
func (n Node) Has(a netip.Addr) bool {
	for _, own := range n.Addrs {
		if own.Prefix.Addr() == a {
			return true
		}
	}
	return false
}

// LinkOf returns the link that has an address of the node, "" if none has.
func (n Node) LinkOf(a netip.Addr) string {
	for _, own := range n.Addrs {
		if own.Prefix.Addr() == a {
			return own.Link
		}
	}
	return ""
}

// NodeAddr is an address of the node with the prefix length of its network.
type NodeAddr struct {
	Prefix netip.Prefix
	Link   string
}

// Bridge is a bridge of the node. Filtered4 and Filtered6 say that packets between its
// ports pass iptables, and so the connection tracker and IPVS.
type Bridge struct {
	Link                 string
	Filtered4, Filtered6 bool
}

// Filtered reports whether packets of a family pass iptables.
func (b Bridge) Filtered(f Family) bool { return f == IPv4 && b.Filtered4 || f == IPv6 && b.Filtered6 }

// Release is a kernel's major and minor version.
type Release struct{ Major, Minor int }

// Before reports whether r is an older release than major.minor.
func (r Release) Before(major, minor int) bool {
	return r.Major < major || r.Major == major && r.Minor < minor
}

// SetConns writes counted connections into the reading. conns is parallel to reals; real
// servers that the reading does not have are skipped.
func (o *Observed) SetConns(reals []RealKey, conns []Conns) {
	if len(o.Conns) != o.Reals.Len() {
		o.Conns = make([]Conns, o.Reals.Len())
	}
	for i, k := range reals {
		if j, found := o.Reals.Index(k); found {
			o.Conns[j] = conns[i]
		}
	}
}
