package config

import (
	"math"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// Names returns the names of sets, chains and the device of VIPs.
func (c Config) Names() kernel.Names {
	return kernel.Names{Prefix: c.IPVS.NamePrefix, Device: c.IPVS.DeviceName}
}

// ForMode returns what the frontends and the mode need, except what depends on
// the machine: whether it has IPv6, and the size of its connection table.
func (c Config) ForMode() mode.Config {
	m := mode.Config{
		Frontends: frontend.Config{
			Scheduler:         c.IPVS.Scheduler,
			Forward:           sources.Forward(c.IPVS.Forward),
			NodePortAddresses: c.NodePortAddresses.CIDRs, NodePortPrimary: c.NodePortAddresses.Primary,
			BindAddress: c.BindAddress, NodeAddresses: c.Node.Addresses, LocalCIDRs: c.Node.LocalCIDRs,
			LocalFallback: frontend.LocalFallback(c.IPVS.LocalFallback),
			Announce:      c.Announce.Mode != announce.Off, Moved: c.Announce.Mode == announce.VRRP,
		},
		Names:         c.Names(),
		MasqueradeAll: c.IPTables.MasqueradeAll, MasqueradeBit: uint8(c.IPTables.MasqueradeBit),
		LocalhostNodePorts: c.IPTables.LocalhostNodePorts,
		DetectLocal:        mode.DetectLocal(c.DetectLocalMode), ClusterCIDRs: c.ClusterCIDR,
		BridgeInterface: c.BridgeInterface, InterfaceNamePrefix: c.InterfaceNamePrefix,
		VIPBinding: mode.VIPBinding(c.IPVS.VIPBinding), StrictARP: c.IPVS.StrictARP, VIPPing: c.IPVS.VIPPing,
		Lean: c.Rules.Layout == "lean", ProbeVIPs: c.IPVS.ProbeVIPs,
		Flowtable: c.NFTables.Flowtable,
		Conntrack: mode.Conntrack{
			TCPEstablished: c.Conntrack.TCPEstablishedTimeout, TCPCloseWait: c.Conntrack.TCPCloseWaitTimeout,
			TCPBeLiberal: c.Conntrack.TCPBeLiberal, UDP: c.Conntrack.UDPTimeout, UDPStream: c.Conntrack.UDPStreamTimeout,
		},
		Timeouts: kernel.Timeouts{TCP: ipvsSeconds(c.IPVS.TCPTimeout), TCPFin: ipvsSeconds(c.IPVS.TCPFinTimeout),
			UDP: ipvsSeconds(c.IPVS.UDPTimeout)},
		IPVS:         mode.Periods{Sync: c.IPVS.SyncPeriod, MinSync: c.IPVS.MinSyncPeriod},
		IPTables:     mode.Periods{Sync: c.IPTables.SyncPeriod, MinSync: c.IPTables.MinSyncPeriod},
		DrainTimeout: c.IPVS.DrainTimeout, GUEPort: uint16(c.IPVS.GUEPort), DeleteUnknown: c.IPVS.DeleteUnknown,
		ExcludeCIDRs: c.IPVS.ExcludeCIDRs,
		Sync:         c.ConnSync.daemons(), SyncThreshold: c.ConnSync.Threshold, SloppyTCP: c.IPVS.SloppyTCP,
		Announced: c.Announce.Mode != announce.Off,
	}
	if m.Sync == nil {
		m.SyncThreshold = ""
	}
	m.Conntrack.Exact.Max = c.given("conntrack.maxPerCore") || c.given("conntrack.min")
	m.Conntrack.Exact.TCPEstablished = c.given("conntrack.tcpEstablishedTimeout")
	m.Conntrack.Exact.TCPCloseWait = c.given("conntrack.tcpCloseWaitTimeout")
	return m
}

// ipvsSeconds returns a timeout as IPVS counts it. If it is too long, the result
// is the longest possible one, which the kernel refuses with the parameter's name.
func ipvsSeconds(d time.Duration) uint32 { return uint32(min(int64(d/time.Second), math.MaxInt32)) }
