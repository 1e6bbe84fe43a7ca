// Package config is the configuration of this node's proxy: svcproxy.toml, kube-proxy's own YAML, and flags.
//
// Config is plain values. One table (fields.go) has a row for every key. TOML, YAML, flags, the files that
// --write-config-to writes, /configz, manual pages and schemas all come from it. svcproxy.toml is read
// strictly, kube-proxy's configuration as kube-proxy reads it. Every problem is reported with file and line.
//
// Current follows the file of a running process and keeps the last good content.
//
// The package does not know what is served, what a node looks like, or what its kernel can do: a valid Config
// may still ask for more than the machine has.
package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// DefaultFile is read when no --config is given, if it is there.
const DefaultFile = "/etc/svcproxy/svcproxy.toml"

// Config has one field for every key of svcproxy.toml, under the key's name.
// What is upstream's has KubeProxyConfiguration's meaning.
type Config struct {
	Mode                string
	ModeFallsBack       bool // to another mode where mode ipvs cannot be used: see fallsBack
	ModeGrace           time.Duration
	PortRange           string
	BindAddress         netip.Addr
	BindAddressHardFail bool
	// HealthzBindAddress and MetricsBindAddress are zero when turned off.
	HealthzBindAddress          netip.AddrPort
	MetricsBindAddress          netip.AddrPort
	MetricsAllowedHosts         []string // names, ".domain", or "*"
	EnableProfiling             bool
	ShowHiddenMetricsForVersion string
	HostnameOverride            string
	ConfigSyncPeriod            time.Duration

	ClusterCIDR         []netip.Prefix // at most one of a family
	DetectLocalMode     string
	BridgeInterface     string // detectLocal.bridgeInterface
	InterfaceNamePrefix string // detectLocal.interfaceNamePrefix
	NodePortAddresses   NodePortAddresses
	UDPIdleTimeout      time.Duration
	OOMScoreAdj         int
	FeatureGates        map[string]bool
	StateDir            string
	RuntimeDir          string

	IPTables         IPTables
	Rules            Rules
	NFTables         NFTables
	IPVS             IPVS
	Health           Health
	ConnSync         ConnSync // ha.sync
	Announce         Announce
	Notify           Notify
	Conntrack        Conntrack
	ClientConnection ClientConnection
	Logging          Logging
	Node             Node
	File             FileSource // sources.file
	APIServer        APIServer  // sources.apiserver
	DNS              DNS
	Control          Control // control
}

// NodePortAddresses is where node ports are served: on the node's primary
// addresses, or on those inside CIDRs; with neither, on all that are not
// loopback.
type NodePortAddresses struct {
	Primary bool
	CIDRs   []netip.Prefix
}

// hasLoopback reports whether loopback addresses of IPv4 are among them. As in kube-proxy, all addresses of a
// family are if none of it is named.
func (a NodePortAddresses) hasLoopback() bool {
	is4 := func(p netip.Prefix) bool { return p.Addr().Is4() }
	return !a.Primary && (!slices.ContainsFunc(a.CIDRs, is4) ||
		slices.ContainsFunc(a.CIDRs, netip.MustParsePrefix("127.0.0.0/8").Overlaps))
}

// IPTables is table iptables. MasqueradeAll and MasqueradeBit count in mode
// ipvs, too.
type IPTables struct {
	MasqueradeAll      bool
	MasqueradeBit      int
	LocalhostNodePorts bool // kube-proxy's default is true, ours is false: see route_localnet
	SyncPeriod         time.Duration
	MinSyncPeriod      time.Duration
}

// NFTables is table nftables.
type NFTables struct {
	Flowtable bool
}

// The values of rules.backend.
const (
	BackendAuto     = "auto"
	BackendIPTables = "iptables"
	BackendNFTables = "nftables"
)

// Rules is table rules.
type Rules struct {
	Backend string // BackendAuto, BackendIPTables or BackendNFTables
	Layout  string // kube-proxy or lean
}

// IPVS is table ipvs. A timeout of 0 leaves the kernel's value alone.
type IPVS struct {
	Scheduler     string
	SyncPeriod    time.Duration
	MinSyncPeriod time.Duration
	ExcludeCIDRs  []netip.Prefix
	StrictARP     bool
	TCPTimeout    time.Duration
	TCPFinTimeout time.Duration
	UDPTimeout    time.Duration

	DeviceName    string
	NamePrefix    string
	VIPPing       bool
	DrainTimeout  time.Duration // 0 = until the last connection ends
	LocalFallback string        // drop or cluster
	DeleteUnknown bool
	VIPBinding    string // auto, address or route
	ProbeVIPs     bool
	Forward       string // one of sources.Forwards
	GUEPort       int
	SloppyTCP     mode.Sloppy
}

// Conntrack is table conntrack. A 0 leaves the kernel's value alone.
type Conntrack struct {
	// Written are the raised keys that a file or a flag gives, in the order of the table.
	Written []string

	MaxPerCore            int
	Min                   int
	TCPEstablishedTimeout time.Duration
	TCPCloseWaitTimeout   time.Duration
	TCPBeLiberal          bool
	UDPTimeout            time.Duration
	UDPStreamTimeout      time.Duration
}

// ClientConnection is table clientConnection: how to reach an API server.
type ClientConnection struct {
	Master             string // of --master alone, as upstream; "" is what Kubeconfig says
	Kubeconfig         string
	AcceptContentTypes string
	ContentType        string
	QPS                float64
	Burst              int
}

// Logging is table logging.
type Logging struct {
	Format         string // text or json
	Verbosity      int
	FlushFrequency time.Duration
}

// Node is table node: what a Node object would say.
type Node struct {
	Zone       string
	Addresses  []netip.Addr
	LocalCIDRs []netip.Prefix
}

// FileSource is table sources.file.
type FileSource struct {
	Paths    []string
	Lists    string // the folder of lists; "" = none
	Watch    bool
	Debounce time.Duration
}

// DNS is table dns: how names among the backends are resolved.
type DNS struct {
	Servers          []netip.AddrPort // none: those of /etc/resolv.conf
	MinTTL, MaxTTL   time.Duration
	Keep, EmptyGrace time.Duration
}

// Control is table control.
type Control struct {
	Tables bool
}

// APIServer is table sources.apiserver.
type APIServer struct {
	Enabled    bool
	EmptyGrace time.Duration // 0 = an empty list is believed at once
	ProxyName  string        // "" = Services without a proxy's name
}

// Default is what absent keys mean.
func Default() Config {
	var c Config
	for _, f := range allFields {
		f.reset(&c)
	}
	return c
}

// NodeName is what endpoints' nodeName is compared with: the host's name unless
// hostnameOverride gives another.
func (c Config) NodeName(hostname string) string {
	if name := strings.TrimSpace(c.HostnameOverride); name != "" {
		hostname = name
	}
	return strings.ToLower(strings.TrimSpace(hostname))
}

// defaultOfYAML is the default of kube-proxy's file, where a scheduler that is not named is rr, whatever the weights.
func defaultOfYAML() Config {
	c := Default()
	c.IPVS.Scheduler = sources.DefaultScheduler
	return c
}

// implied says whether a key is left out when a configuration is written, so that it goes on meaning its
// default and not that very value.
func (c Config) implied(f *field) bool {
	return f.is(raised) && !slices.Contains(c.Conntrack.Written, f.key)
}

// given says whether a file or a flag gives a raised key.
func (c Config) given(key string) bool { return slices.Contains(c.Conntrack.Written, key) }

// maxConntrack bounds what maxPerCore comes to on a node of many cores: a million
// entries take 300 MB. A larger min is obeyed.
const maxConntrack = 1 << 20

// Max is nf_conntrack_max for a node with this many cores; 0 leaves the
// kernel's value alone.
func (c Conntrack) Max(cores int) uint32 {
	if c.MaxPerCore == 0 {
		return 0
	}
	perCore := min(uint64(c.MaxPerCore)*uint64(cores), maxConntrack)
	return uint32(max(perCore, uint64(c.Min)))
}
