package rules

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// Config is what of the configuration the rules depend on, in the configuration's own words where it
// has some.
type Config struct {
	Names kernel.Names
	// IPv6: the host has the family. Without it no IPv6 object is wanted, not even an empty set.
	IPv6 bool

	Scheduler     string // of services that name none; "" = rr
	MasqueradeAll bool
	MasqueradeBit uint8 // 0 to 31; 14 is mark 0x4000

	DetectLocal         DetectLocal
	ClusterCIDRs        []netip.Prefix // at most one of a family
	BridgeInterface     string
	InterfaceNamePrefix string

	// NodePortAddresses are where node ports are served; a family with none has them on every address,
	// as in kube-proxy.
	NodePortAddresses []netip.Prefix
	// NodePortPrimary restricts them to the node's primary addresses instead.
	NodePortPrimary bool

	// BindAddress is the node's primary address of its family; unspecified, or invalid, it says nothing.
	BindAddress netip.Addr
	// NodeAddresses are the node's own in the order of their importance: the first of a family is the
	// primary one, unless BindAddress is.
	NodeAddresses []netip.Addr
	// LocalCIDRs: an endpoint without a node name is local if inside one.
	LocalCIDRs []netip.Prefix
	// Object says of the node what the configuration and the machine do not.
	Object NodeObject

	LocalFallback LocalFallback

	VIPBinding VIPBinding
	StrictARP  bool
	VIPPing    bool
	ProbeVIPs  bool
	Conntrack  Conntrack
	// Timeouts are how long silent connections are kept, in seconds; 0 leaves the kernel's alone.
	Timeouts kernel.Timeouts

	DrainTimeout  time.Duration // 0 = until the last connection ends
	DeleteUnknown bool
	ExcludeCIDRs  []netip.Prefix
	// Hold: not every source has delivered its table yet, so nothing may be removed.
	Hold bool
	// Occupied are the full names of sets that hold entries which stay although the table does not have
	// them, as while Hold: the rules that exist only while their set has entries are wanted for them too.
	Occupied []string
}

// DetectLocal is how traffic from this node's own workloads is told from the rest: detectLocalMode.
type DetectLocal string

// The modes. The zero value is DetectClusterCIDR.
const (
	DetectClusterCIDR         DetectLocal = "ClusterCIDR"
	DetectNodeCIDR            DetectLocal = "NodeCIDR" // Config.LocalCIDRs, or the Node object's podCIDRs
	DetectBridgeInterface     DetectLocal = "BridgeInterface"
	DetectInterfaceNamePrefix DetectLocal = "InterfaceNamePrefix"
)

// LocalFallback is where external traffic goes under a policy of Local when no endpoint is local. Traffic to
// cluster IPs goes nowhere then.
type LocalFallback string

// The fallbacks: nowhere, which is also the zero value's meaning, or to all endpoints as kube-proxy's
// ipvs mode has it.
const (
	FallbackDrop    LocalFallback = "drop"
	FallbackCluster LocalFallback = "cluster"
)

// Conntrack is what the connection tracker is to be set to; a zero leaves the kernel's value alone.
type Conntrack struct {
	Max     uint32 // entries
	Buckets uint32 // of the hash; a larger one stays, see Buckets

	// Timeouts, in whole seconds.
	TCPEstablished, TCPCloseWait, UDP, UDPStream time.Duration

	// Exact are those that are set whatever is there. Else a larger Max stays, and so does a timeout
	// that is not the kernel's own: an operator set it.
	Exact struct{ Max, TCPEstablished, TCPCloseWait bool }

	TCPBeLiberal bool
}
