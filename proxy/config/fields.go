package config

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources/fields"
)

// field is one key of svcproxy.toml. To add a key, add the Config field and a row of the table: TOML, YAML,
// flags, --write-config-to, /configz, manual pages and schemas follow.
type field struct {
	key     string // dotted
	flag    string // upstream's, "" if it has none
	marks   mark
	comment string // one line: in the written file, manual pages and the flag's usage
	fields.Value[Config]
	reset func(*Config) // sets the default
}

// mark is what is special about a key.
type mark uint8

const (
	// zero: in KubeProxyConfiguration, "" or 0 is a value of its own. Of an unmarked key it means the default,
	// because upstream's type cannot tell it from an absent one. Marked are upstream's pointers and our own keys.
	zero mark = 1 << iota
	// restart: a running process keeps the value of its start: its mode, names, folders, and where its services
	// come from.
	restart
	// raised: the default only raises the kernel's value, or replaces the kernel's own default. A value that
	// is written down is set as it stands.
	raised
	// idle: nothing in this version uses the key. It is read and checked, so that a file can have it already.
	idle
)

// define is a row of the table: at says where in a Config a value of type t is kept.
func define[V any](key, flag string, marks mark, comment string, at func(*Config) *V, t fields.Type[V],
	byDefault V) field {
	return field{key, flag, marks, comment, fields.At(at, t), func(c *Config) { *at(c) = byDefault }}
}

// is reports whether a field has a mark.
func (f *field) is(m mark) bool { return f.marks&m != 0 }

// table is the part of the key before its last dot: [ipvs].
func (f *field) table() string { return f.key[:max(0, strings.LastIndexByte(f.key, '.'))] }

// name is the part after it.
func (f *field) name() string { return f.key[strings.LastIndexByte(f.key, '.')+1:] }

// set gives the field of a Config a value, as the TOML library decodes it.
func (f *field) set(c *Config, v any) error { return f.Set(c, fields.Node{Key: f.key, V: v}) }

// allFields are all keys, in the order in which they are written. TOML wants keys without a table first.
var allFields = slices.Concat(mainFields, healthFields(), announceFields, notifyFields, haFields())

var mainFields = []field{
	define("mode", "proxy-mode", restart, `"ipvs", "nftables", "iptables" or "userspace", or exit code 4; "" is this `+
		`kernel's best mode; ipvs of kube-proxy's file or flag falls back to iptables, nftables, userspace`,
		func(c *Config) *string { return &c.Mode }, fields.StringOf(checkMode), ""),
	define("modeGrace", "", zero|restart, `with mode "": how long a start waits for what the mode of the last run `+
		`lacks, before it uses another one; 0s: not at all`,
		func(c *Config) *time.Duration { return &c.ModeGrace }, fields.Duration, 10*time.Second),
	define("bindAddress", "bind-address", 0, "the node's own address; unspecified: from the default route",
		func(c *Config) *netip.Addr { return &c.BindAddress }, address, netip.IPv4Unspecified()),
	define("bindAddressHardFail", "bind-address-hard-fail", 0,
		"exit if the healthz or metrics listener cannot be bound; false: try again every 5 s",
		func(c *Config) *bool { return &c.BindAddressHardFail }, fields.Bool, false),
	define("healthzBindAddress", "healthz-bind-address", 0, `the listener for load balancers' probes; "" turns it off`,
		func(c *Config) *netip.AddrPort {
			return &c.HealthzBindAddress
		}, listener(healthzPort), netip.MustParseAddrPort("0.0.0.0:10256")),
	define("metricsBindAddress", "metrics-bind-address", 0, `the listener for Prometheus; "" turns it off`,
		func(c *Config) *netip.AddrPort {
			return &c.MetricsBindAddress
		}, listener(metricsPort), netip.MustParseAddrPort("127.0.0.1:10249")),
	define("metricsAllowedHosts", "", zero, `further names of this node that requests for metrics may use; `+
		`".example.com": all names below it, "*": any`,
		func(c *Config) *[]string { return &c.MetricsAllowedHosts }, hostNames, nil),
	define("enableProfiling", "profiling", 0, "serve /debug/pprof on the metrics listener",
		func(c *Config) *bool { return &c.EnableProfiling }, fields.Bool, false),
	define("showHiddenMetricsForVersion", "show-hidden-metrics-for-version", restart|idle,
		"the previous minor version, to show its hidden metrics",
		func(c *Config) *string { return &c.ShowHiddenMetricsForVersion }, fields.StringOf(checkMinor), ""),
	define("hostnameOverride", "hostname-override", restart,
		`this node's name, which endpoints' nodeName is compared with; "": the host name`,
		func(c *Config) *string { return &c.HostnameOverride }, fields.String, ""),
	define("configSyncPeriod", "config-sync-period", 0, "the longest time between full readings of the sources",
		func(c *Config) *time.Duration { return &c.ConfigSyncPeriod }, positive, 15*time.Minute),
	define("clusterCIDR", "cluster-cidr", 0, `not mode userspace: traffic to cluster IPs from outside of it is `+
		`masqueraded; a CIDR or "v4,v6"`,
		func(c *Config) *[]netip.Prefix { return &c.ClusterCIDR }, pair, nil),
	define("detectLocalMode", "detect-local-mode", 0,
		"not mode userspace: what counts as local traffic: "+
			"ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
		func(c *Config) *string {
			return &c.DetectLocalMode
		}, word("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"), "ClusterCIDR"),
	define("nodePortAddresses", "nodeport-addresses", 0,
		`CIDRs of the node's addresses that serve node ports, or ["primary"]; []: all but loopback`,
		func(c *Config) *NodePortAddresses { return &c.NodePortAddresses }, nodePorts, NodePortAddresses{}),
	define("udpIdleTimeout", "udp-timeout", zero|restart,
		"mode userspace: how long a UDP flow is kept without a datagram; 0s: 250ms",
		func(c *Config) *time.Duration { return &c.UDPIdleTimeout }, fields.Duration, 250*time.Millisecond),
	define("portRange", "proxy-port-range", restart, `mode userspace: the ports to listen on where another program has `+
		`a service's port: "10000-10100", "10000+100", "10000"; "" or "0-0": any`,
		func(c *Config) *string { return &c.PortRange }, fields.StringOf(checkPorts), ""),
	define("oomScoreAdj", "oom-score-adj", zero, "the OOM score adjustment of this process: -1000 (never killed) to 1000",
		func(c *Config) *int { return &c.OOMScoreAdj }, fields.Int(-1000, 1000), -999),
	define("featureGates", "feature-gates", restart, "accepted; kube-proxy's gates have no effect here",
		func(c *Config) *map[string]bool { return &c.FeatureGates }, gates, nil),
	define("stateDir", "", zero|restart, "the directory of state that survives a restart: last good services, saved "+
		"sysctls, names of the last run; a purge of the Debian package removes svcproxy's files from it, and no others",
		func(c *Config) *string { return &c.StateDir }, fields.StringOf(absolute), "/var/lib/svcproxy"),
	define("runtimeDir", "", zero|restart, "the directory of the status socket",
		func(c *Config) *string { return &c.RuntimeDir }, fields.StringOf(absolute), "/run/svcproxy"),

	define("detectLocal.bridgeInterface", "pod-bridge-interface", 0,
		"with detectLocalMode BridgeInterface: traffic from other interfaces is masqueraded",
		func(c *Config) *string { return &c.BridgeInterface }, fields.StringOf(checkInterface), ""),
	define("detectLocal.interfaceNamePrefix", "pod-interface-name-prefix", 0,
		"with detectLocalMode InterfaceNamePrefix: traffic from interfaces of other names is masqueraded",
		func(c *Config) *string { return &c.InterfaceNamePrefix }, fields.StringOf(checkInterface), ""),

	define("iptables.masqueradeAll", "masquerade-all", 0, "not mode userspace: masquerade all traffic to cluster IPs",
		func(c *Config) *bool { return &c.IPTables.MasqueradeAll }, fields.Bool, false),
	define("iptables.masqueradeBit", "iptables-masquerade-bit", zero,
		"not mode userspace: the bit of the packet mark that selects packets to masquerade: 14 is 0x4000",
		func(c *Config) *int { return &c.IPTables.MasqueradeBit }, fields.Int(0, 31), 14),
	define("iptables.localhostNodePorts", "iptables-localhost-nodeports", 0,
		"mode iptables: loopback addresses of IPv4 serve node ports, too; sets net.ipv4.conf.all.route_localnet",
		func(c *Config) *bool { return &c.IPTables.LocalhostNodePorts }, fields.Bool, false),
	define("iptables.syncPeriod", "iptables-sync-period", 0,
		"not mode ipvs: the time in which the whole kernel state is checked",
		func(c *Config) *time.Duration { return &c.IPTables.SyncPeriod }, positive, 30*time.Second),
	define("iptables.minSyncPeriod", "iptables-min-sync-period", 0,
		"not mode ipvs: the shortest time between syncs",
		func(c *Config) *time.Duration { return &c.IPTables.MinSyncPeriod }, fields.Duration, time.Second),

	define("rules.backend", "", zero|restart, `what writes the rules of mode ipvs: "iptables", with ipsets, or `+
		`"nftables", which needs neither; "auto": iptables where the kernel takes it`,
		func(c *Config) *string {
			return &c.Rules.Backend
		}, word(BackendAuto, BackendIPTables, BackendNFTables), BackendAuto),
	define("rules.layout", "", zero, `"lean": few rules on the way of each packet in mode ipvs, and masqueraded TCP `+
		`keeps the client's port where it is free; "kube-proxy": the rules of kube-proxy; both have the same verdicts`,
		func(c *Config) *string { return &c.Rules.Layout }, word("lean", "kube-proxy"), "lean"),

	define("nftables.flowtable", "", zero|restart, "mode nftables: packets of established connections to VIPs that "+
		"come in by links with addresses go by a flowtable, past FORWARD; those to node ports and to VIPs that other "+
		"programs bind do not; needs kernel module nf_flow_table",
		func(c *Config) *bool { return &c.NFTables.Flowtable }, fields.Bool, false),

	define("ipvs.scheduler", "ipvs-scheduler", 0, `modes ipvs and userspace: the scheduler of services that name none: `+
		`rr, wrr, lc, wlc, sh, mh, ...; "" is wrr, and rr for those of a kube-apiserver`,
		func(c *Config) *string { return &c.IPVS.Scheduler }, fields.StringOf(checkScheduler), ""),
	define("ipvs.syncPeriod", "ipvs-sync-period", 0, "mode ipvs: the time in which the whole kernel state is checked, "+
		"in shards if it is large",
		func(c *Config) *time.Duration { return &c.IPVS.SyncPeriod }, positive, 30*time.Second),
	define("ipvs.minSyncPeriod", "ipvs-min-sync-period", 0, "mode ipvs: the shortest time between syncs",
		func(c *Config) *time.Duration { return &c.IPVS.MinSyncPeriod }, fields.Duration, 0),
	define("ipvs.excludeCIDRs", "ipvs-exclude-cidrs", 0, "with deleteUnknown: foreign virtual servers in these stay",
		func(c *Config) *[]netip.Prefix { return &c.IPVS.ExcludeCIDRs }, prefixes, nil),
	define("ipvs.strictARP", "ipvs-strict-arp", 0, "do not answer ARP for VIPs (arp_ignore=1, arp_announce=2)",
		func(c *Config) *bool { return &c.IPVS.StrictARP }, fields.Bool, false),
	define("ipvs.tcpTimeout", "ipvs-tcp-timeout", 0, "mode ipvs: the timeout of idle TCP connections; 0s leaves the "+
		"kernel's value alone",
		func(c *Config) *time.Duration { return &c.IPVS.TCPTimeout }, seconds, 0),
	define("ipvs.tcpFinTimeout", "ipvs-tcpfin-timeout", 0,
		"mode ipvs: the timeout of TCP connections after a FIN; 0s leaves the kernel's value alone",
		func(c *Config) *time.Duration { return &c.IPVS.TCPFinTimeout }, seconds, 0),
	define("ipvs.udpTimeout", "ipvs-udp-timeout", 0, "mode ipvs: the timeout of UDP flows; 0s leaves the kernel's value "+
		"alone",
		func(c *Config) *time.Duration { return &c.IPVS.UDPTimeout }, seconds, 0),
	define("ipvs.deviceName", "", zero|restart, "the dummy device that VIPs are bound to",
		func(c *Config) *string { return &c.IPVS.DeviceName }, fields.StringOf(kernel.CheckDevice), "kube-ipvs0"),
	define("ipvs.namePrefix", "", zero|restart, "the prefix of the names of sets and chains, so that another proxy can "+
		"run on the same node",
		func(c *Config) *string { return &c.IPVS.NamePrefix }, fields.StringOf(kernel.CheckPrefix), "KUBE"),
	define("ipvs.vipPing", "", zero, "not mode userspace: VIPs answer ICMP echo; in mode userspace they always do",
		func(c *Config) *bool { return &c.IPVS.VIPPing }, fields.Bool, true),
	define("ipvs.drainTimeout", "", zero, "how long a removed endpoint keeps its connections at most; 0s: until the "+
		"last one ends",
		func(c *Config) *time.Duration { return &c.IPVS.DrainTimeout }, fields.Duration, 0),
	define("ipvs.localFallback", "", zero, `external traffic under policy Local without a local endpoint: "drop" it, or `+
		`send it to all endpoints ("cluster")`,
		func(c *Config) *string { return &c.IPVS.LocalFallback }, word("drop", "cluster"), "drop"),
	define("ipvs.deleteUnknown", "", zero, "remove foreign virtual servers, as kube-proxy does",
		func(c *Config) *bool { return &c.IPVS.DeleteUnknown }, fields.Bool, false),
	define("ipvs.vipBinding", "", zero, `VIPs are an "address" or a local "route"; "auto": addresses up to 1000 VIPs`,
		func(c *Config) *string { return &c.IPVS.VIPBinding }, word("auto", "address", "route"), "auto"),
	define("ipvs.probeVIPs", "", zero, "ask by ARP and ND whether another host has a VIP of a connected network, and do "+
		"not bind it then",
		func(c *Config) *bool { return &c.IPVS.ProbeVIPs }, fields.Bool, true),

	define("ipvs.forward", "", zero, `mode ipvs: how packets reach the endpoints of services that name no method and `+
		`change no port: "masquerade", "direct", "ipip" or "gue"`,
		func(c *Config) *string { return &c.IPVS.Forward }, word("masquerade", "direct", "ipip", "gue"), "masquerade"),
	define("ipvs.guePort", "", zero, `mode ipvs: the UDP port of endpoints that are reached by "gue"`,
		func(c *Config) *int { return &c.IPVS.GUEPort }, fields.Int(1, 65535), 6080),

	define("ipvs.sloppyTCP", "", zero, `mode ipvs: balance TCP connections that began on another node `+
		`(net.ipv4.vs.sloppy_tcp): "on", "off", or "auto": where VIPs are announced and a service has scheduler mh and is `+
		`not masqueraded`,
		func(c *Config) *mode.Sloppy {
			return &c.IPVS.SloppyTCP
		}, word(mode.SloppyAuto, mode.SloppyOn, mode.SloppyOff), mode.SloppyAuto),

	define("conntrack.maxPerCore", "conntrack-max-per-core", zero|raised,
		"not mode userspace: entries of the connection tracker per core; 0 leaves the kernel's value alone; if the "+
			"key is absent, a larger limit stays",
		func(c *Config) *int { return &c.Conntrack.MaxPerCore }, fields.Int(0, math.MaxInt32), 32768),
	define("conntrack.min", "conntrack-min", zero|raised,
		"not mode userspace: the least number of entries, whatever maxPerCore comes to; if the key is absent, a "+
			"larger limit stays",
		func(c *Config) *int { return &c.Conntrack.Min }, fields.Int(0, math.MaxInt32), 131072),
	define("conntrack.tcpEstablishedTimeout", "conntrack-tcp-timeout-established", zero|raised,
		"not mode userspace: the timeout of idle TCP connections; 0s leaves the kernel's value alone; if the key is "+
			"absent, an operator's value stays",
		func(c *Config) *time.Duration { return &c.Conntrack.TCPEstablishedTimeout }, seconds, 24*time.Hour),
	define("conntrack.tcpCloseWaitTimeout", "conntrack-tcp-timeout-close-wait", zero|raised,
		"not mode userspace: the timeout of TCP connections in CLOSE_WAIT; 0s leaves the kernel's value alone; if the "+
			"key is absent, an operator's value stays",
		func(c *Config) *time.Duration { return &c.Conntrack.TCPCloseWaitTimeout }, seconds, time.Hour),
	define("conntrack.tcpBeLiberal", "conntrack-tcp-be-liberal", zero,
		"not mode userspace: do not mark packets outside of the TCP window as invalid",
		func(c *Config) *bool { return &c.Conntrack.TCPBeLiberal }, fields.Bool, false),
	define("conntrack.udpTimeout", "conntrack-udp-timeout", zero,
		"not mode userspace: the timeout of UDP flows without an answer; 0s leaves the kernel's value alone",
		func(c *Config) *time.Duration { return &c.Conntrack.UDPTimeout }, seconds, 0),
	define("conntrack.udpStreamTimeout", "conntrack-udp-timeout-stream", zero,
		"not mode userspace: the timeout of UDP flows with answers; 0s leaves the kernel's value alone",
		func(c *Config) *time.Duration { return &c.Conntrack.UDPStreamTimeout }, seconds, 0),

	define("clientConnection.kubeconfig", "kubeconfig", restart,
		`the file that says how to reach the API server; "" in a pod: the pod's service account`,
		func(c *Config) *string { return &c.ClientConnection.Kubeconfig }, fields.String, ""),
	define("clientConnection.acceptContentTypes", "", restart,
		`the content type that the API server is asked for; "": contentType`,
		func(c *Config) *string { return &c.ClientConnection.AcceptContentTypes }, fields.String, ""),
	define("clientConnection.contentType", "kube-api-content-type", restart,
		"the content type of requests to the API server",
		func(c *Config) *string {
			return &c.ClientConnection.ContentType
		}, fields.String, "application/vnd.kubernetes.protobuf"),
	define("clientConnection.qps", "kube-api-qps", restart, "requests per second to the API server",
		func(c *Config) *float64 { return &c.ClientConnection.QPS }, fields.Float, 5),
	define("clientConnection.burst", "kube-api-burst", restart, "the largest burst of requests to the API server",
		func(c *Config) *int { return &c.ClientConnection.Burst }, fields.Int(0, math.MaxInt32), 10),

	define("logging.format", "logging-format", 0, "text or json",
		func(c *Config) *string { return &c.Logging.Format }, word("text", "json"), "text"),
	define("logging.verbosity", "v", 0, "0: one line per sync that changed something; 4 and above: debug",
		func(c *Config) *int { return &c.Logging.Verbosity }, fields.Int(0, math.MaxInt32), 0),
	define("logging.flushFrequency", "log-flush-frequency", idle, "how long a log line may be buffered at most",
		func(c *Config) *time.Duration { return &c.Logging.FlushFrequency }, fields.Duration, 5*time.Second),

	define("node.zone", "", zero, "this node's zone, to prefer endpoints of the same zone",
		func(c *Config) *string { return &c.Node.Zone }, fields.String, ""),
	define("node.addresses", "", zero, "this node's own addresses, the primary one of each family first; []: from the "+
		"default routes",
		func(c *Config) *[]netip.Addr { return &c.Node.Addresses }, addresses, nil),
	define("node.localCIDRs", "", zero, "endpoints without nodeName are local if inside these CIDRs",
		func(c *Config) *[]netip.Prefix { return &c.Node.LocalCIDRs }, prefixes, nil),

	define("sources.file.paths", "", zero|restart, "names and globs of service files",
		func(c *Config) *[]string {
			return &c.File.Paths
		}, paths, []string{"/etc/svcproxy/services.toml", "/etc/svcproxy/services.d/*.toml"}),
	define("sources.file.lists", "", zero|restart, "the folder of lists of networks, which allow and deny of a service "+
		`name as "@FILE"; "": none`,
		func(c *Config) *string { return &c.File.Lists }, fields.String, "/etc/svcproxy/lists"),
	define("sources.file.watch", "", zero|restart, "follow changes as they happen; false: every configSyncPeriod",
		func(c *Config) *bool { return &c.File.Watch }, fields.Bool, true),
	define("sources.file.debounce", "", zero|restart,
		"how long a file that is written in place must not change before it counts, if it removes nothing",
		func(c *Config) *time.Duration { return &c.File.Debounce }, fields.Duration, 50*time.Millisecond),

	define("sources.apiserver.enabled", "", zero|restart, "take services from a Kubernetes API server",
		func(c *Config) *bool { return &c.APIServer.Enabled }, fields.Bool, false),
	define("sources.apiserver.emptyGrace", "", zero|restart,
		"how long services and endpoints stay when the API server suddenly has none; 0s: they go at once",
		func(c *Config) *time.Duration { return &c.APIServer.EmptyGrace }, fields.Duration, 5*time.Minute),
	define("sources.apiserver.proxyName", "", zero|restart,
		`serve only Services whose label service.kubernetes.io/service-proxy-name has this value; "": those without it, `+
			"as kube-proxy does",
		func(c *Config) *string { return &c.APIServer.ProxyName }, fields.StringOf(checkProxyName), ""),

	define("control.tables", "", zero, "members of the group svcproxy may set and remove tables of services, as "+
		"root may: svcproxy table",
		func(c *Config) *bool { return &c.Control.Tables }, fields.Bool, false),

	define("dns.servers", "", zero|restart,
		"whom to ask for DNS names of backends, ADDRESS or ADDRESS:PORT; []: the servers of /etc/resolv.conf",
		func(c *Config) *[]netip.AddrPort { return &c.DNS.Servers }, nameServers, nil),
	define("dns.minTTL", "", zero|restart, "the shortest time between two questions for a name, whatever its TTL",
		func(c *Config) *time.Duration { return &c.DNS.MinTTL }, fields.DurationIn(time.Second, time.Hour), time.Second),
	define("dns.maxTTL", "", zero|restart, "the longest one",
		func(c *Config) *time.Duration { return &c.DNS.MaxTTL }, fields.DurationIn(time.Second, 24*time.Hour), 5*time.Minute),
	define("dns.keep", "", zero|restart,
		"how long a name's last good answer counts while servers fail, also after restarts; longer if a service has no other",
		func(c *Config) *time.Duration { return &c.DNS.Keep }, fields.Duration, time.Hour),
	define("dns.emptyGrace", "", zero|restart,
		"how long it counts when the answer is that the name has no address, or does not exist; 0s: not at all",
		func(c *Config) *time.Duration { return &c.DNS.EmptyGrace }, fields.Duration, 5*time.Minute),
}

// foreignKeys are the top-level keys that sources/file reads.
var foreignKeys = []string{"healthChecks", "services"}
