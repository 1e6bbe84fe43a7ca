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
	ProbeVIPs  bool
	Conntrack  Conntrack
	GUEPort    uint16 // where endpoints take what is wrapped in GUE
	// Timeouts of idle IPVS connections, in seconds; 0 keeps the kernel's value.
	Timeouts kernel.Timeouts

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
	// EndpointChains writes a chain for each endpoint, as kube-proxy does. It is for
	// comparisons with kube-proxy only.
	EndpointChains bool

	// Hold: a source has not delivered its table yet, so nothing may be removed.
	Hold bool
	// Occupied are the full names of sets that keep entries which the table does
	// not have, as during Hold. Rules that exist only for sets with entries are
	// wanted for these too.
	Occupied []string
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
		c.LocalhostNodePorts == o.LocalhostNodePorts && c.HairpinRules == o.HairpinRules && c.EndpointChains == o.EndpointChains &&
		c.VIPBinding == o.VIPBinding && c.NoDevice == o.NoDevice && c.GUEPort == o.GUEPort && c.StrictARP == o.StrictARP &&
		c.VIPPing == o.VIPPing && c.ProbeVIPs == o.ProbeVIPs && c.Conntrack == o.Conntrack && c.Timeouts == o.Timeouts &&
		c.IPVS == o.IPVS && c.IPTables == o.IPTables &&
		c.DrainTimeout == o.DrainTimeout && c.DeleteUnknown == o.DeleteUnknown && slices.Equal(c.ExcludeCIDRs, o.ExcludeCIDRs) &&
		c.Hold == o.Hold && slices.Equal(c.Occupied, o.Occupied)
}

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
