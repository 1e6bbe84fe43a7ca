package config

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// field is one key of svcproxy.toml.
type field struct {
	key     string // dotted
	flag    string // upstream's, "" if it has none
	comment string // one line, of the written file and the flag's usage
	value   func(*Config) value
}

// table is the part of the key before its last dot: [ipvs].
func (f field) table() string { return f.key[:max(0, strings.LastIndexByte(f.key, '.'))] }

// name is the part behind.
func (f field) name() string { return f.key[strings.LastIndexByte(f.key, '.')+1:] }

// fields are all keys, in the order in which they are written; those without a
// table come first, as TOML wants it.
var fields = []field{
	{"mode", "proxy-mode", `"ipvs", "iptables" or "userspace"; "" is the best this kernel can do`,
		func(c *Config) value { return text{&c.Mode, checkMode} }},
	{"bindAddress", "bind-address", "the node's own address; unspecified: from the default route",
		func(c *Config) value { return address{&c.BindAddress} }},
	{"bindAddressHardFail", "bind-address-hard-fail", "failing to bind healthz or metrics ends the process; false: tried again every 5 s",
		func(c *Config) value { return truth{&c.BindAddressHardFail} }},
	{"healthzBindAddress", "healthz-bind-address", `for load balancers' probes; "" turns it off`,
		func(c *Config) value { return listener{&c.HealthzBindAddress, healthzPort} }},
	{"metricsBindAddress", "metrics-bind-address", `for Prometheus; "" turns it off`,
		func(c *Config) value { return listener{&c.MetricsBindAddress, metricsPort} }},
	{"metricsAllowedHosts", "", `names of this node, besides its own, under which metrics are asked for; ".example.com" is all below, "*" any`,
		func(c *Config) value { return hostNames(&c.MetricsAllowedHosts) }},
	{"enableProfiling", "profiling", "serve /debug/pprof on the metrics listener",
		func(c *Config) value { return truth{&c.EnableProfiling} }},
	{"showHiddenMetricsForVersion", "show-hidden-metrics-for-version", "the previous minor version, whose hidden metrics are shown",
		func(c *Config) value { return text{&c.ShowHiddenMetricsForVersion, checkMinor} }},
	{"hostnameOverride", "hostname-override", `this node's name, compared with endpoints' nodeName; "" is the host's`,
		func(c *Config) value { return text{&c.HostnameOverride, nil} }},
	{"configSyncPeriod", "config-sync-period", "the longest time between full readings of the sources",
		func(c *Config) value { return duration{p: &c.ConfigSyncPeriod, least: positive} }},
	{"clusterCIDR", "cluster-cidr", `where clients are: traffic from outside to cluster IPs is masqueraded; a CIDR or "v4,v6"`,
		func(c *Config) value { return pair{&c.ClusterCIDR} }},
	{"detectLocalMode", "detect-local-mode", "what counts as local traffic: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
		func(c *Config) value {
			return word(&c.DetectLocalMode, "ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix")
		}},
	{"nodePortAddresses", "nodeport-addresses", `CIDRs of the node's addresses that serve node ports, or ["primary"]; [] is all but loopback`,
		func(c *Config) value { return nodePorts{&c.NodePortAddresses} }},
	{"oomScoreAdj", "oom-score-adj", "of this process: -1000 (never killed) to 1000",
		func(c *Config) value { return number{&c.OOMScoreAdj, -1000, 1000} }},
	{"featureGates", "feature-gates", "accepted; those of upstream have no effect here",
		func(c *Config) value { return gates{&c.FeatureGates} }},
	{"stateDir", "", "survives a restart: last good services, sysctls as found, names of the last run",
		func(c *Config) value { return text{&c.StateDir, absolute} }},
	{"runtimeDir", "", "status socket",
		func(c *Config) value { return text{&c.RuntimeDir, absolute} }},

	{"detectLocal.bridgeInterface", "pod-bridge-interface", "with detectLocalMode BridgeInterface: traffic not from here is masqueraded",
		func(c *Config) value { return text{&c.BridgeInterface, optional(kernel.CheckDevice)} }},
	{"detectLocal.interfaceNamePrefix", "pod-interface-name-prefix", "with detectLocalMode InterfaceNamePrefix, likewise",
		func(c *Config) value { return text{&c.InterfaceNamePrefix, optional(kernel.CheckDevice)} }},

	{"iptables.masqueradeAll", "masquerade-all", "masquerade all traffic to cluster IPs",
		func(c *Config) value { return truth{&c.IPTables.MasqueradeAll} }},
	{"iptables.masqueradeBit", "iptables-masquerade-bit", "the bit of the packet mark that asks for masquerading: 14 is 0x4000",
		func(c *Config) value { return number{&c.IPTables.MasqueradeBit, 0, 31} }},
	{"iptables.syncPeriod", "iptables-sync-period", "mode iptables: the longest time between full checks",
		func(c *Config) value { return duration{p: &c.IPTables.SyncPeriod, least: positive} }},
	{"iptables.minSyncPeriod", "iptables-min-sync-period", "mode iptables: the shortest time between syncs",
		func(c *Config) value { return duration{p: &c.IPTables.MinSyncPeriod} }},

	{"ipvs.scheduler", "ipvs-scheduler", "of services that name none: rr, wrr, lc, wlc, sh, mh, ...",
		func(c *Config) value { return text{&c.IPVS.Scheduler, checkScheduler} }},
	{"ipvs.syncPeriod", "ipvs-sync-period", "the time in which the whole kernel is checked, part by part where there is much",
		func(c *Config) value { return duration{p: &c.IPVS.SyncPeriod, least: positive} }},
	{"ipvs.minSyncPeriod", "ipvs-min-sync-period", "the shortest time between syncs",
		func(c *Config) value { return duration{p: &c.IPVS.MinSyncPeriod} }},
	{"ipvs.excludeCIDRs", "ipvs-exclude-cidrs", "with deleteUnknown: foreign virtual servers in these stay",
		func(c *Config) value { return prefixes(&c.IPVS.ExcludeCIDRs) }},
	{"ipvs.strictARP", "ipvs-strict-arp", "do not answer ARP for VIPs (arp_ignore=1, arp_announce=2)",
		func(c *Config) value { return truth{&c.IPVS.StrictARP} }},
	{"ipvs.tcpTimeout", "ipvs-tcp-timeout", "of idle TCP connections; 0s leaves the kernel's value alone",
		func(c *Config) value { return seconds(&c.IPVS.TCPTimeout) }},
	{"ipvs.tcpFinTimeout", "ipvs-tcpfin-timeout", "of TCP connections after a FIN; 0s leaves the kernel's value alone",
		func(c *Config) value { return seconds(&c.IPVS.TCPFinTimeout) }},
	{"ipvs.udpTimeout", "ipvs-udp-timeout", "of UDP flows; 0s leaves the kernel's value alone",
		func(c *Config) value { return seconds(&c.IPVS.UDPTimeout) }},
	{"ipvs.deviceName", "", "the dummy device that VIPs are bound to",
		func(c *Config) value { return text{&c.IPVS.DeviceName, kernel.CheckDevice} }},
	{"ipvs.namePrefix", "", "how the names of our sets and chains begin, so that another proxy can run beside",
		func(c *Config) value { return text{&c.IPVS.NamePrefix, kernel.CheckPrefix} }},
	{"ipvs.vipPing", "", "VIPs answer ICMP echo",
		func(c *Config) value { return truth{&c.IPVS.VIPPing} }},
	{"ipvs.drainTimeout", "", "the longest a removed endpoint keeps its connections; 0s: until the last one ends",
		func(c *Config) value { return duration{p: &c.IPVS.DrainTimeout} }},
	{"ipvs.localFallback", "", `external traffic under policy Local without a local endpoint: "drop", or "cluster" for all endpoints`,
		func(c *Config) value { return word(&c.IPVS.LocalFallback, "drop", "cluster") }},
	{"ipvs.deleteUnknown", "", "remove foreign virtual servers, as kube-proxy does",
		func(c *Config) value { return truth{&c.IPVS.DeleteUnknown} }},
	{"ipvs.vipBinding", "", `VIPs are an "address" or a local "route"; "auto": addresses up to 1000 VIPs`,
		func(c *Config) value { return word(&c.IPVS.VIPBinding, "auto", "address", "route") }},
	{"ipvs.probeVIPs", "", "ask by ARP and ND whether another host has a VIP of a connected network, before it is bound; one that is taken is not bound",
		func(c *Config) value { return truth{&c.IPVS.ProbeVIPs} }},

	{"conntrack.maxPerCore", "conntrack-max-per-core", "entries of the connection tracker per core; 0 leaves the kernel's value alone; left out, a larger limit stays",
		func(c *Config) value { return number{&c.Conntrack.MaxPerCore, 0, math.MaxInt32} }},
	{"conntrack.min", "conntrack-min", "entries at least, whatever maxPerCore comes to; left out, a larger limit stays",
		func(c *Config) value { return number{&c.Conntrack.Min, 0, math.MaxInt32} }},
	{"conntrack.tcpEstablishedTimeout", "conntrack-tcp-timeout-established", "of idle TCP connections; 0s leaves the kernel's value alone; left out, an operator's value stays",
		func(c *Config) value { return seconds(&c.Conntrack.TCPEstablishedTimeout) }},
	{"conntrack.tcpCloseWaitTimeout", "conntrack-tcp-timeout-close-wait", "of TCP connections in CLOSE_WAIT; 0s leaves the kernel's value alone; left out, an operator's value stays",
		func(c *Config) value { return seconds(&c.Conntrack.TCPCloseWaitTimeout) }},
	{"conntrack.tcpBeLiberal", "conntrack-tcp-be-liberal", "packets out of the TCP window are not marked invalid",
		func(c *Config) value { return truth{&c.Conntrack.TCPBeLiberal} }},
	{"conntrack.udpTimeout", "conntrack-udp-timeout", "of UDP without an answer; 0s leaves the kernel's value alone",
		func(c *Config) value { return seconds(&c.Conntrack.UDPTimeout) }},
	{"conntrack.udpStreamTimeout", "conntrack-udp-timeout-stream", "of UDP with answers; 0s leaves the kernel's value alone",
		func(c *Config) value { return seconds(&c.Conntrack.UDPStreamTimeout) }},

	{"clientConnection.kubeconfig", "kubeconfig", `how to reach the API server; "" inside a cluster: the pod's own account`,
		func(c *Config) value { return text{&c.ClientConnection.Kubeconfig, nil} }},
	{"clientConnection.acceptContentTypes", "", `what is asked of the API server; "" is contentType`,
		func(c *Config) value { return text{&c.ClientConnection.AcceptContentTypes, nil} }},
	{"clientConnection.contentType", "kube-api-content-type", "what is sent to the API server",
		func(c *Config) value { return text{&c.ClientConnection.ContentType, nil} }},
	{"clientConnection.qps", "kube-api-qps", "requests a second to the API server",
		func(c *Config) value { return fraction{&c.ClientConnection.QPS} }},
	{"clientConnection.burst", "kube-api-burst", "requests at once to the API server",
		func(c *Config) value { return number{&c.ClientConnection.Burst, 0, math.MaxInt32} }},

	{"logging.format", "logging-format", "text or json",
		func(c *Config) value { return word(&c.Logging.Format, "text", "json") }},
	{"logging.verbosity", "v", "0 is a line for each sync that changed something; more is more",
		func(c *Config) value { return number{&c.Logging.Verbosity, 0, math.MaxInt32} }},
	{"logging.flushFrequency", "log-flush-frequency", "the longest a log line may be held back",
		func(c *Config) value { return duration{p: &c.Logging.FlushFrequency} }},

	{"node.zone", "", "this node's zone, for endpoints that are preferred by zone",
		func(c *Config) value { return text{&c.Node.Zone, nil} }},
	{"node.addresses", "", "this node's own addresses, the first of a family its primary one; [] asks the default routes",
		func(c *Config) value { return addresses(&c.Node.Addresses) }},
	{"node.localCIDRs", "", "endpoints without nodeName are local if inside these",
		func(c *Config) value { return prefixes(&c.Node.LocalCIDRs) }},

	{"sources.file.paths", "", "service files, names or patterns",
		func(c *Config) value { return paths(&c.File.Paths) }},
	{"sources.file.watch", "", "follow changes as they happen; false: every configSyncPeriod",
		func(c *Config) value { return truth{&c.File.Watch} }},
	{"sources.file.debounce", "", "how long a file must be left alone before it is read",
		func(c *Config) value { return duration{p: &c.File.Debounce} }},

	{"sources.apiserver.enabled", "", "take services from a Kubernetes API server",
		func(c *Config) value { return truth{&c.APIServer.Enabled} }},
	{"sources.apiserver.emptyGrace", "", "how long services and endpoints stay when the API server has none at once; 0s believes it",
		func(c *Config) value { return duration{p: &c.APIServer.EmptyGrace} }},
}

// foreignKeys are the top-level keys that sources/file reads.
var foreignKeys = []string{"services"}

func checkMode(s string) error {
	switch s {
	case "kernelspace":
		return fmt.Errorf(`%q is for Windows: use "ipvs"`, s)
	case "nftables":
		return fmt.Errorf(`%q is a mode of kube-proxy alone: use "ipvs"`, s)
	}
	var mode string
	return word(&mode, "", "ipvs", "iptables", "userspace").set(s)
}

func checkScheduler(s string) error {
	err := sources.CheckScheduler(s)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "scheduler "))
}

var minor = regexp.MustCompile(`^(\d+\.\d+)?$`)

func checkMinor(s string) error {
	if !minor.MatchString(s) {
		return fmt.Errorf(`%q is not a minor version such as "1.35"`, s)
	}
	return nil
}

func absolute(s string) error {
	if !filepath.IsAbs(s) {
		return fmt.Errorf("%q must be an absolute path", s)
	}
	return nil
}

func optional(check func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return check(s)
	}
}
