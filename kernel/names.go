package kernel

import (
	"strings"
)

// Names are the configurable parts of the names of owned objects. Other names let a
// second proxy run on the same node.
type Names struct {
	Prefix string // of sets and chains: "KUBE"
	Device string // that VIPs are bound to: "kube-ipvs0"
}

// DefaultNames are kube-proxy's.
var DefaultNames = Names{Prefix: "KUBE", Device: "kube-ipvs0"}

// SetType is an ipset type by the name ipset prints, or a map of nftables.
type SetType string

// The set types in use.
const (
	HashIP        SetType = "hash:ip"
	HashIPPort    SetType = "hash:ip,port"
	HashIPPortIP  SetType = "hash:ip,port,ip"
	HashIPPortNet SetType = "hash:ip,port,net"
	BitmapPort    SetType = "bitmap:port"

	// Maps, of nftables alone: to a chain, and with a slot to an endpoint.
	MapIPPort     SetType = "map:ip,port"
	MapIPPortSlot SetType = "map:ip,port,slot"
)

// IsMap reports whether entries of the type have values.
func (t SetType) IsMap() bool { return strings.HasPrefix(string(t), "map:") }

// Base is the type without a bitmap's range.
func (t SetType) Base() SetType {
	base, _, _ := strings.Cut(string(t), " ")
	return SetType(base)
}

// SetName is the name of an owned set without prefix and family.
type SetName string

// The owned sets. All but VirtualServer and the last three are kube-proxy's too.
const (
	LoopBack               SetName = "LOOP-BACK"
	ClusterIP              SetName = "CLUSTER-IP"
	ExternalIP             SetName = "EXTERNAL-IP"
	ExternalIPLocal        SetName = "EXTERNAL-IP-LOCAL"
	LoadBalancer           SetName = "LOAD-BALANCER"
	LoadBalancerLocal      SetName = "LOAD-BALANCER-LOCAL"
	LoadBalancerFW         SetName = "LOAD-BALANCER-FW"
	LoadBalancerSourceIP   SetName = "LOAD-BALANCER-SOURCE-IP"
	LoadBalancerSourceCIDR SetName = "LOAD-BALANCER-SOURCE-CIDR"
	NodePortTCP            SetName = "NODE-PORT-TCP"
	NodePortLocalTCP       SetName = "NODE-PORT-LOCAL-TCP"
	NodePortUDP            SetName = "NODE-PORT-UDP"
	NodePortLocalUDP       SetName = "NODE-PORT-LOCAL-UDP"
	NodePortSCTP           SetName = "NODE-PORT-SCTP-HASH"
	NodePortLocalSCTP      SetName = "NODE-PORT-LOCAL-SCTP-HASH"
	HealthCheckNodePort    SetName = "HEALTH-CHECK-NODE-PORT"
	IPVSIPs                SetName = "IPVS-IPS"
	VirtualServer          SetName = "VIRTUAL-SERVER" // ownership: every virtual server that svcproxy made

	// The maps of mode nftables: of addresses and ports that are served, and of their endpoints.
	Frontends SetName = "FRONTENDS"
	Slots     SetName = "SLOTS"

	// Those of earlier versions, which left some services out of connection tracking.
	untracked        SetName = "UNTRACKED"
	untrackedReply   SetName = "UNTRACKED-REPLY"
	trackedEndpoints SetName = "TRACKED-ENDPOINTS"
)

// SetSpec describes the sets of one name, of either family.
type SetSpec struct {
	Name SetName
	Type SetType
	// Opens says that an entry lets new connections past the filter that guards bound
	// VIPs. It is added after its virtual server and removed before it, so that no
	// packet for the VIP reaches a port of the host in between.
	Opens bool
	// Proto of a bitmap's ports, which the kernel does not store; else 0.
	Proto Proto
	// Limits says that the set is in the table of limits.
	Limits bool
	// Former sets are in no wanted state. An earlier version made them: they are ours, so Diff removes them.
	Former bool
}

// SetSpecs lists the owned sets. MapSpecs has the maps.
var SetSpecs = []SetSpec{
	{Name: LoopBack, Type: HashIPPortIP},
	{Name: ClusterIP, Type: HashIPPort, Opens: true},
	{Name: ExternalIP, Type: HashIPPort, Opens: true},
	{Name: ExternalIPLocal, Type: HashIPPort, Opens: true},
	{Name: LoadBalancer, Type: HashIPPort, Opens: true},
	{Name: LoadBalancerLocal, Type: HashIPPort},
	{Name: LoadBalancerFW, Type: HashIPPort},
	{Name: LoadBalancerSourceIP, Type: HashIPPortIP},
	{Name: LoadBalancerSourceCIDR, Type: HashIPPortNet},
	{Name: NodePortTCP, Type: BitmapPort, Proto: TCP},
	{Name: NodePortLocalTCP, Type: BitmapPort, Proto: TCP},
	{Name: NodePortUDP, Type: BitmapPort, Proto: UDP},
	{Name: NodePortLocalUDP, Type: BitmapPort, Proto: UDP},
	{Name: NodePortSCTP, Type: HashIPPort},
	{Name: NodePortLocalSCTP, Type: HashIPPort},
	{Name: HealthCheckNodePort, Type: BitmapPort, Proto: TCP},
	{Name: IPVSIPs, Type: HashIP},
	{Name: VirtualServer, Type: HashIPPort},
	{Name: untracked, Type: HashIPPort, Former: true},
	{Name: untrackedReply, Type: HashIPPort, Former: true},
	{Name: trackedEndpoints, Type: HashIP, Former: true},
}

// MapSpecs lists the owned maps of nftables. A frontend is added after its slots, and leads to none when these go.
var MapSpecs = []SetSpec{
	{Name: Frontends, Type: MapIPPort, Opens: true},
	{Name: Slots, Type: MapIPPortSlot},
}

// maxSetName is IPSET_MAXNAMELEN without its NUL.
const maxSetName = 31

// Set returns the full name of a set: KUBE-CLUSTER-IP, KUBE-6-CLUSTER-IP. As in
// kube-proxy, IPv6 names are cut at 31 characters.
func (n Names) Set(f Family, s SetName) string {
	name := n.Prefix + "-" + string(s)
	if f == IPv6 {
		name = n.Prefix + "-6-" + string(s)
	}
	return name[:min(len(name), maxSetName)]
}

// IsSet reports whether full is Set(f, s), without building it.
func (n Names) IsSet(full string, f Family, s SetName) bool {
	rest, ok := strings.CutPrefix(full, n.Prefix)
	if f == IPv6 && ok {
		rest, ok = strings.CutPrefix(rest, "-6")
	}
	if ok {
		rest, ok = strings.CutPrefix(rest, "-")
	}
	return ok && (rest == string(s) || len(full) == maxSetName && strings.HasPrefix(string(s), rest))
}

// Table is the name of our tables of nftables.
func (n Names) Table() string {
	if n.Prefix == DefaultNames.Prefix {
		return "svcproxy"
	}
	return "svcproxy-" + strings.ToLower(n.Prefix)
}

// TempSets is the prefix of temporary sets, which exist while another set is being
// replaced.
func (n Names) TempSets() string { return n.Prefix + "-TMP-" }

// OwnsSet reports whether a set of this name is owned.
func (n Names) OwnsSet(name string) bool {
	if strings.HasPrefix(name, n.TempSets()) {
		return true
	}
	_, _, ok := n.SetSpec(name)
	return ok
}

// SetSpec returns the family and the specification for the full name of a set.
func (n Names) SetSpec(name string) (Family, SetSpec, bool) {
	for _, specs := range [...][]SetSpec{SetSpecs, MapSpecs} {
		for _, s := range specs {
			for _, f := range [...]Family{IPv4, IPv6} {
				if n.IsSet(name, f, s.Name) {
					return f, s, true
				}
			}
		}
	}
	return n.limitSpec(name)
}

// ForwardingIPv6 is the sysctl that lets the node forward packets of IPv6.
const ForwardingIPv6 = "net.ipv6.conf.all.forwarding"

// Parameters of IPv6 that each link has.
const linkParameter, proxyNDP, acceptRA = "net.ipv6.conf.", ".proxy_ndp", ".accept_ra"

// ProxyNDP is the sysctl that lets a link answer for proxy neighbours. As in sysctl(8),
// a dot in the link's name becomes a slash.
func ProxyNDP(link string) string {
	return linkParameter + strings.ReplaceAll(link, ".", "/") + proxyNDP
}

// AcceptRA is the sysctl that says whether the kernel heeds router advertisements on a link: 1 unless the
// node forwards, 2 even then.
func AcceptRA(link string) string {
	return linkParameter + strings.ReplaceAll(link, ".", "/") + acceptRA
}

// IsAcceptRA reports whether AcceptRA named a sysctl.
func IsAcceptRA(name string) bool {
	link, ok := linkOf(name)
	return ok && name == AcceptRA(link)
}

// linkOf returns the link of a sysctl that ProxyNDP or AcceptRA named.
func linkOf(name string) (link string, ok bool) {
	rest, begins := strings.CutPrefix(name, linkParameter)
	i := max(strings.LastIndexByte(rest, '.'), 0)
	link = strings.ReplaceAll(rest[:i], "/", ".")
	return link, begins && (name == ProxyNDP(link) || name == AcceptRA(link))
}
