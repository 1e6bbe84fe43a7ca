package config

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// Configz is the answer of /configz. kube-proxy's key has what kube-proxy 1.34 has there: the fields of its internal
// KubeProxyConfiguration by their Go names, durations as text. It leaves out fields without a counterpart here:
// Windows, Winkernel, NFTables and the options of the log. "svcproxy" has all keys of svcproxy.toml, without secrets.
func (c Config) Configz() map[string]any {
	return map[string]any{"kubeproxy.config.k8s.io": c.upstream(), "svcproxy": c.public().Tree()}
}

type upstreamConfig struct {
	Linux                       upstreamLinux
	FeatureGates                map[string]bool
	ClientConnection            upstreamConnection
	Logging                     upstreamLogging
	HostnameOverride            string
	BindAddress                 string
	HealthzBindAddress          string
	MetricsBindAddress          string
	BindAddressHardFail         bool
	EnableProfiling             bool
	ShowHiddenMetricsForVersion string
	Mode                        string
	IPTables                    upstreamIPTables
	IPVS                        upstreamIPVS
	DetectLocalMode             string
	DetectLocal                 upstreamLocal
	NodePortAddresses           []string
	SyncPeriod                  string
	MinSyncPeriod               string
	ConfigSyncPeriod            string
}

type upstreamLinux struct {
	Conntrack     upstreamConntrack
	MasqueradeAll bool
	OOMScoreAdj   int
}

type upstreamConntrack struct {
	MaxPerCore            int
	Min                   int
	TCPEstablishedTimeout string
	TCPCloseWaitTimeout   string
	TCPBeLiberal          bool
	UDPTimeout            string
	UDPStreamTimeout      string
}

type upstreamConnection struct {
	Kubeconfig         string
	AcceptContentTypes string
	ContentType        string
	QPS                float64
	Burst              int
}

// upstreamLogging has JSON names upstream, too.
type upstreamLogging struct {
	Format         string `json:"format"`
	FlushFrequency string `json:"flushFrequency"`
	Verbosity      int    `json:"verbosity"`
}

type upstreamIPTables struct {
	MasqueradeBit      int
	LocalhostNodePorts bool
}

type upstreamIPVS struct {
	Scheduler     string
	ExcludeCIDRs  []string
	StrictARP     bool
	TCPTimeout    string
	TCPFinTimeout string
	UDPTimeout    string
}

type upstreamLocal struct {
	BridgeInterface     string
	ClusterCIDRs        []string
	InterfaceNamePrefix string
}

func (c Config) upstream() upstreamConfig {
	gates := c.FeatureGates
	if gates == nil {
		gates = map[string]bool{}
	}
	return upstreamConfig{
		Linux: upstreamLinux{
			Conntrack: upstreamConntrack{
				MaxPerCore:            c.Conntrack.MaxPerCore,
				Min:                   c.Conntrack.Min,
				TCPEstablishedTimeout: c.Conntrack.TCPEstablishedTimeout.String(),
				TCPCloseWaitTimeout:   c.Conntrack.TCPCloseWaitTimeout.String(),
				TCPBeLiberal:          c.Conntrack.TCPBeLiberal,
				UDPTimeout:            c.Conntrack.UDPTimeout.String(),
				UDPStreamTimeout:      c.Conntrack.UDPStreamTimeout.String(),
			},
			MasqueradeAll: c.IPTables.MasqueradeAll,
			OOMScoreAdj:   c.OOMScoreAdj,
		},
		FeatureGates: gates,
		ClientConnection: upstreamConnection{
			Kubeconfig:         c.ClientConnection.Kubeconfig,
			AcceptContentTypes: c.ClientConnection.AcceptContentTypes,
			ContentType:        c.ClientConnection.ContentType,
			QPS:                c.ClientConnection.QPS,
			Burst:              c.ClientConnection.Burst,
		},
		Logging: upstreamLogging{c.Logging.Format, c.Logging.FlushFrequency.String(), c.Logging.Verbosity},

		HostnameOverride:            c.HostnameOverride,
		BindAddress:                 c.BindAddress.String(),
		HealthzBindAddress:          listening(c.HealthzBindAddress),
		MetricsBindAddress:          listening(c.MetricsBindAddress),
		BindAddressHardFail:         c.BindAddressHardFail,
		EnableProfiling:             c.EnableProfiling,
		ShowHiddenMetricsForVersion: c.ShowHiddenMetricsForVersion,

		Mode: cmp.Or(c.Mode, mode.IPVS),
		IPTables: upstreamIPTables{MasqueradeBit: c.IPTables.MasqueradeBit,
			LocalhostNodePorts: c.IPTables.LocalhostNodePorts},
		IPVS: upstreamIPVS{
			Scheduler:     cmp.Or(c.IPVS.Scheduler, sources.DefaultScheduler),
			ExcludeCIDRs:  written(c.IPVS.ExcludeCIDRs),
			StrictARP:     c.IPVS.StrictARP,
			TCPTimeout:    c.IPVS.TCPTimeout.String(),
			TCPFinTimeout: c.IPVS.TCPFinTimeout.String(),
			UDPTimeout:    c.IPVS.UDPTimeout.String(),
		},
		DetectLocalMode:   c.DetectLocalMode,
		DetectLocal:       upstreamLocal{c.BridgeInterface, written(c.ClusterCIDR), c.InterfaceNamePrefix},
		NodePortAddresses: c.NodePortAddresses.upstream(),
		SyncPeriod:        c.IPVS.SyncPeriod.String(),
		MinSyncPeriod:     c.IPVS.MinSyncPeriod.String(),
		ConfigSyncPeriod:  c.ConfigSyncPeriod.String(),
	}
}

func (n NodePortAddresses) upstream() []string {
	if n.Primary {
		return []string{primary}
	}
	return written(n.CIDRs)
}

// listening is a listener's address as text; "" if the listener is turned off.
func listening(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// written is a list as text. An empty list is nil, which is null in JSON, as upstream.
func written[T fmt.Stringer](items []T) []string {
	var words []string
	for _, item := range items {
		words = append(words, item.String())
	}
	return words
}
