// Package config is how this node's proxy behaves: the fields of
// svcproxy.toml, their defaults, and what values they may have.
//
// A Config is plain values. One table of fields (fields.go) drives everything
// that is about keys: TOML, flags, kube-proxy's YAML, and the files that
// --write-config-to writes. Reading svcproxy.toml is strict; kube-proxy's own
// configuration is read as kube-proxy reads it. Either way everything that is
// wrong is said, with file and line.
//
// It refuses to know what is served (sources), what a node looks like, and what
// its kernel can do: a Config that is valid here may still be more than a
// machine has.
package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// DefaultFile is read when no --config is given, if it is there.
const DefaultFile = "/etc/svcproxy/svcproxy.toml"

// Config has one field for every key of svcproxy.toml, under the key's name.
// What is upstream's has KubeProxyConfiguration's meaning.
type Config struct {
	Mode                string
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
	OOMScoreAdj         int
	FeatureGates        map[string]bool
	StateDir            string
	RuntimeDir          string

	IPTables         IPTables
	IPVS             IPVS
	Conntrack        Conntrack
	ClientConnection ClientConnection
	Logging          Logging
	Node             Node
	File             FileSource // sources.file
	APIServer        APIServer  // sources.apiserver
}

// NodePortAddresses is where node ports are served: on the node's primary
// addresses, or on those inside CIDRs; with neither, on all that are not
// loopback.
type NodePortAddresses struct {
	Primary bool
	CIDRs   []netip.Prefix
}

// IPTables is table iptables. MasqueradeAll and MasqueradeBit count in mode
// ipvs, too.
type IPTables struct {
	MasqueradeAll bool
	MasqueradeBit int
	SyncPeriod    time.Duration
	MinSyncPeriod time.Duration
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
}

// Conntrack is table conntrack. A 0 leaves the kernel's value alone.
type Conntrack struct {
	// Written are the keys in raised that a file or a flag gives, in its order.
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
	Watch    bool
	Debounce time.Duration
}

// APIServer is table sources.apiserver.
type APIServer struct {
	Enabled    bool
	EmptyGrace time.Duration // 0 = an empty list is believed at once
}

// Default is what absent keys mean.
func Default() Config {
	return Config{
		BindAddress:        netip.IPv4Unspecified(),
		HealthzBindAddress: netip.MustParseAddrPort("0.0.0.0:10256"),
		MetricsBindAddress: netip.MustParseAddrPort("127.0.0.1:10249"),
		ConfigSyncPeriod:   15 * time.Minute,
		DetectLocalMode:    "ClusterCIDR",
		OOMScoreAdj:        -999,
		StateDir:           "/var/lib/svcproxy",
		RuntimeDir:         "/run/svcproxy",
		IPTables: IPTables{
			MasqueradeBit: 14,
			SyncPeriod:    30 * time.Second,
			MinSyncPeriod: time.Second,
		},
		IPVS: IPVS{
			Scheduler:     "rr",
			SyncPeriod:    30 * time.Second,
			DeviceName:    "kube-ipvs0",
			NamePrefix:    "KUBE",
			VIPPing:       true,
			LocalFallback: "drop",
			VIPBinding:    "auto",
			ProbeVIPs:     true,
		},
		Conntrack: Conntrack{
			MaxPerCore:            32768,
			Min:                   131072,
			TCPEstablishedTimeout: 24 * time.Hour,
			TCPCloseWaitTimeout:   time.Hour,
		},
		ClientConnection: ClientConnection{
			ContentType: "application/vnd.kubernetes.protobuf",
			QPS:         5,
			Burst:       10,
		},
		Logging: Logging{Format: "text", FlushFrequency: 5 * time.Second},
		File: FileSource{
			Paths:    []string{"/etc/svcproxy/services.toml", "/etc/svcproxy/services.d/*.toml"},
			Watch:    true,
			Debounce: 50 * time.Millisecond,
		},
		APIServer: APIServer{EmptyGrace: 5 * time.Minute},
	}
}

// NodeName is what endpoints' nodeName is compared with: the host's name unless
// hostnameOverride gives another.
func (c Config) NodeName(hostname string) string {
	if name := strings.TrimSpace(c.HostnameOverride); name != "" {
		hostname = name
	}
	return strings.ToLower(strings.TrimSpace(hostname))
}

// raised are the keys whose defaults only raise what is there, or replace what
// the kernel begins with. One that is written down holds as it stands.
var raised = []string{"conntrack.maxPerCore", "conntrack.min", "conntrack.tcpEstablishedTimeout", "conntrack.tcpCloseWaitTimeout"}

// implied says whether a key is left out of what is written, so that it goes on
// meaning its default and not that very value.
func (c Config) implied(key string) bool {
	return slices.Contains(raised, key) && !slices.Contains(c.Conntrack.Written, key)
}

// maxConntrack is where a node of many cores stops getting more: a million
// entries are 300 MB. A min above it was asked for by name.
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
