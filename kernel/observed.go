package kernel

import (
	"net/netip"
	"slices"
	"time"
)

// Observed is one reading of the kernel: the objects of our names, all virtual
// and real servers of whoever made them, and the facts that Diff and the rules
// need beside them.
type Observed struct {
	State
	Conns []Conns // of State.Reals, by index
	// Fresh: Conns was read in this very round. Otherwise a real server that
	// is no longer wanted is not deleted on the strength of it.
	Fresh bool

	Node  Node
	Names Names
	Clock time.Time

	// Saved has the sysctls, and IPVS's timeouts, that we changed since boot, as
	// they were before.
	Saved []Saved
	// Owned are the virtual servers that the reading before this one held as
	// ours; a set that was emptied by hand does not disown them.
	Owned []VirtualKey
	// Record is what a file remembers of virtual servers from before this process;
	// Left of it is carried on from reading to reading.
	Record Record
	// Drains are the drains under way, by real server, since when.
	Drains []Drain
	// Answered are proxy neighbours that others made, sorted: what is wanted is
	// there, and never ours.
	Answered []Neighbor
	// Probed are claims that other hosts on the link were asked about just now, and
	// nobody answered; Taken those that another host answered for. Both sorted.
	Probed []Claim
	Taken  []Taken
	// Firewall are the base chains of others that our packets have to pass.
	Firewall []Barrier
	// FWMark counts virtual servers by firewall mark. They are never ours.
	FWMark int
}

// Conns counts a real server's connections. Active are established ones;
// Inactive are half-closed, in TIME_WAIT, or UDP; Persist are templates.
type Conns struct{ Active, Inactive, Persist uint32 }

// Drain is a real server on its way out.
type Drain struct {
	Real  RealKey
	Since time.Time
}

// Saved is a kernel parameter that we changed: its value before, and ours.
type Saved struct{ Name, Before, Ours string }

// Node is what the rules need to know of this machine.
type Node struct {
	Name string
	Zone string
	// Addrs are the addresses of the node, without those of our own device
	// and without loopback, sorted.
	Addrs []NodeAddr
	// Primary addresses: the source of the default route, by family; zero if
	// there is none.
	Primary4, Primary6 netip.Addr
	// Gateways are the next hops of the default routes.
	Gateways []netip.Addr
	// BrNetfilter: bridged packets pass iptables. Only then may a rule use -m
	// physdev, which would load it.
	BrNetfilter bool
	// Bridges are the links of Addrs that are bridges, sorted by name.
	Bridges []Bridge
	// Release is the running kernel's version: {6, 1}.
	Release Release
}

// Has says whether an address is one of the node's own.
func (n Node) Has(a netip.Addr) bool {
	for _, own := range n.Addrs {
		if own.Prefix.Addr() == a {
			return true
		}
	}
	return false
}

// LinkOf is the link that has an address of the node's own; "" if none has.
func (n Node) LinkOf(a netip.Addr) string {
	for _, own := range n.Addrs {
		if own.Prefix.Addr() == a {
			return own.Link
		}
	}
	return ""
}

// NodeAddr is an address of the node with the length of its network's prefix.
type NodeAddr struct {
	Prefix netip.Prefix
	Link   string
}

// Bridge is a bridge of the node. Filtered4 and Filtered6: packets from one of its
// ports to another pass iptables, and so the connection tracker and IPVS.
type Bridge struct {
	Link                 string
	Filtered4, Filtered6 bool
}

// Filtered says whether packets of a family pass iptables.
func (b Bridge) Filtered(f Family) bool { return f == IPv4 && b.Filtered4 || f == IPv6 && b.Filtered6 }

// Release is a kernel's major and minor version.
type Release struct{ Major, Minor int }

// Before says whether r is an older release than major.minor.
func (r Release) Before(major, minor int) bool {
	return r.Major < major || r.Major == major && r.Minor < minor
}

// SetConns writes newly counted connections into the reading; conns is parallel
// to reals, and real servers that are not in the reading are passed over.
func (o *Observed) SetConns(reals []RealKey, conns []Conns) {
	if len(o.Conns) != len(o.Reals) {
		o.Conns = make([]Conns, len(o.Reals))
	}
	for i, k := range reals {
		j, found := slices.BinarySearchFunc(o.Reals, k, func(r Real, k RealKey) int { return r.Key.Compare(k) })
		if found {
			o.Conns[j] = conns[i]
		}
	}
}
