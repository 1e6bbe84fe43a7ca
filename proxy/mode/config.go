package mode

import (
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// Config is the part of the configuration that decides what the kernel must look
// like.
type Config struct {
	// Frontends is for frontend.List. A mode finds it, resolved for the node, in
	// frontend.Frontends.
	Frontends frontend.Config

	Names kernel.Names

	MasqueradeAll bool
	MasqueradeBit uint8 // 0 to 31; 14 is mark 0x4000

	DetectLocal         DetectLocal
	ClusterCIDRs        []netip.Prefix // at most one per family
	BridgeInterface     string
	InterfaceNamePrefix string

	VIPBinding VIPBinding
	NoDevice   bool // this kernel has no dummy devices
	StrictARP  bool
	VIPPing    bool
	// fewer rules than kube-proxy's for each packet, with the same verdicts; TCP keeps its port if masqueraded
	Lean bool
	// Flowtable: established connections of mode nftables go by one.
	Flowtable bool
	// Native: package nft writes the rules, which leave out what it cannot express. It is for mode ipvs.
	Native    bool
	ProbeVIPs bool
	Conntrack Conntrack
	GUEPort   uint16 // where endpoints take what is wrapped in GUE
	// Timeouts of idle IPVS connections, in seconds; 0 keeps the kernel's value.
	Timeouts kernel.Timeouts

	// Sync are the daemons of IPVS's connection sync, sorted. SyncThreshold is net.ipv4.vs.sync_threshold,
	// "" keeps the kernel's value.
	Sync          []kernel.SyncDaemon
	SyncThreshold string
	// SloppyTCP says whether IPVS takes connections in their middle. Announced: routers spread the clients of
	// VIPs over several nodes.
	SloppyTCP Sloppy
	Announced bool

	// Periods of the loop. They do not change what the kernel must look like.
	IPVS, IPTables Periods

	DrainTimeout  time.Duration // 0 = until the last connection ends
	DeleteUnknown bool
	ExcludeCIDRs  []netip.Prefix
	// These are for mode iptables alone.

	// LocalhostNodePorts serves node ports on loopback addresses of IPv4, too. It sets
	// route_localnet.
	LocalhostNodePorts bool
	// HairpinRules is for kernels without xt_bpf, see package iptables.
	HairpinRules bool
	// NoAffinity is for kernels without xt_recent: services are served without session affinity.
	NoAffinity bool
	// EndpointChains writes a chain for each endpoint, as kube-proxy does. It is for
	// comparisons with kube-proxy only.
	EndpointChains bool

	// Portals are the virtual servers of mode userspace that listen on another port of their
	// address, sorted.
	Portals []Portal

	// Hold: a source has not delivered its table yet, so nothing may be removed.
	Hold bool
	// Occupied are the full names of sets that keep entries which the table does
	// not have, as during Hold. Rules that exist only for sets with entries are
	// wanted for these too.
	Occupied []string
}

// Portal is the port to which rules redirect the packets of a virtual server.
type Portal struct {
	Virtual kernel.VirtualKey
	Port    uint16
}

// Periods are how often the whole kernel is checked, and the least time between two
// syncs.
type Periods struct{ Sync, MinSync time.Duration }

// Same reports whether two configurations are equal. It does not compare their
// Frontends, which frontend.Frontends.Since does.
func (c Config) Same(o Config) bool {
	return c.Names == o.Names && c.MasqueradeAll == o.MasqueradeAll && c.MasqueradeBit == o.MasqueradeBit &&
		c.DetectLocal == o.DetectLocal && slices.Equal(c.ClusterCIDRs, o.ClusterCIDRs) &&
		c.BridgeInterface == o.BridgeInterface && c.InterfaceNamePrefix == o.InterfaceNamePrefix &&
		c.LocalhostNodePorts == o.LocalhostNodePorts && c.HairpinRules == o.HairpinRules && c.NoAffinity == o.NoAffinity &&
		c.EndpointChains == o.EndpointChains &&
		c.VIPBinding == o.VIPBinding && c.NoDevice == o.NoDevice && c.GUEPort == o.GUEPort && c.StrictARP == o.StrictARP &&
		c.VIPPing == o.VIPPing && c.Lean == o.Lean && c.Native == o.Native && c.Flowtable == o.Flowtable &&
		c.ProbeVIPs == o.ProbeVIPs &&
		c.Conntrack == o.Conntrack && c.Timeouts == o.Timeouts &&
		slices.Equal(c.Sync, o.Sync) && c.SyncThreshold == o.SyncThreshold && c.SloppyTCP == o.SloppyTCP &&
		c.Announced == o.Announced &&
		c.IPVS == o.IPVS && c.IPTables == o.IPTables &&
		c.DrainTimeout == o.DrainTimeout && c.DeleteUnknown == o.DeleteUnknown &&
		slices.Equal(c.ExcludeCIDRs, o.ExcludeCIDRs) &&
		slices.Equal(c.Portals, o.Portals) && c.Hold == o.Hold && slices.Equal(c.Occupied, o.Occupied)
}

// Sloppy says whether IPVS takes TCP and SCTP connections whose first packets another node had. Otherwise such
// packets are refused, and the flows of a node that fails end on the others. With it, any stray packet makes a
// connection.
type Sloppy string

// The values of Sloppy. The zero value means SloppyAuto: if VIPs are announced, and a service that mh balances
// does not masquerade.
const (
	SloppyAuto Sloppy = "auto"
	SloppyOn   Sloppy = "on"
	SloppyOff  Sloppy = "off"
)

// DetectLocal says how traffic from this node's own workloads is recognised. It
// is detectLocalMode.
type DetectLocal string

// The modes of detection. The zero value means DetectClusterCIDR.
const (
	DetectClusterCIDR         DetectLocal = "ClusterCIDR"
	DetectNodeCIDR            DetectLocal = "NodeCIDR" // LocalCIDRs, or the Node object's podCIDRs
	DetectBridgeInterface     DetectLocal = "BridgeInterface"
	DetectInterfaceNamePrefix DetectLocal = "InterfaceNamePrefix"
)

// Conntrack has the values for the connection tracker; 0 keeps the kernel's value.
type Conntrack struct {
	Max     uint32 // entries
	Buckets uint32 // of the hash table; a larger one is kept, see Buckets

	// Timeouts, in whole seconds.
	TCPEstablished, TCPCloseWait, UDP, UDPStream time.Duration

	// Exact lists the values that are set in any case. Without it a larger Max is
	// kept, and so is a timeout other than the kernel's default: an operator set it.
	Exact struct{ Max, TCPEstablished, TCPCloseWait bool }

	TCPBeLiberal bool
}
