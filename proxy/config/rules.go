package config

import (
	"math"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/rules"
)

// Names are what sets, chains and the device of VIPs are called.
func (c Config) Names() kernel.Names {
	return kernel.Names{Prefix: c.IPVS.NamePrefix, Device: c.IPVS.DeviceName}
}

// Rules is the configuration in the words of rules.State, without what depends
// on the machine: whether it has IPv6, and its connection table's size.
func (c Config) Rules() rules.Config {
	r := rules.Config{
		Names:     c.Names(),
		Scheduler: c.IPVS.Scheduler, MasqueradeAll: c.IPTables.MasqueradeAll, MasqueradeBit: uint8(c.IPTables.MasqueradeBit),
		DetectLocal: rules.DetectLocal(c.DetectLocalMode), ClusterCIDRs: c.ClusterCIDR,
		BridgeInterface: c.BridgeInterface, InterfaceNamePrefix: c.InterfaceNamePrefix,
		NodePortAddresses: c.NodePortAddresses.CIDRs, NodePortPrimary: c.NodePortAddresses.Primary,
		BindAddress: c.BindAddress, NodeAddresses: c.Node.Addresses, LocalCIDRs: c.Node.LocalCIDRs, LocalFallback: rules.LocalFallback(c.IPVS.LocalFallback),
		VIPBinding: rules.VIPBinding(c.IPVS.VIPBinding), StrictARP: c.IPVS.StrictARP, VIPPing: c.IPVS.VIPPing, ProbeVIPs: c.IPVS.ProbeVIPs,
		Conntrack: rules.Conntrack{
			TCPEstablished: c.Conntrack.TCPEstablishedTimeout, TCPCloseWait: c.Conntrack.TCPCloseWaitTimeout,
			TCPBeLiberal: c.Conntrack.TCPBeLiberal, UDP: c.Conntrack.UDPTimeout, UDPStream: c.Conntrack.UDPStreamTimeout,
		},
		Timeouts:     kernel.Timeouts{TCP: ipvsSeconds(c.IPVS.TCPTimeout), TCPFin: ipvsSeconds(c.IPVS.TCPFinTimeout), UDP: ipvsSeconds(c.IPVS.UDPTimeout)},
		DrainTimeout: c.IPVS.DrainTimeout, DeleteUnknown: c.IPVS.DeleteUnknown, ExcludeCIDRs: c.IPVS.ExcludeCIDRs,
	}
	r.Conntrack.Exact.Max = !c.implied("conntrack.maxPerCore") || !c.implied("conntrack.min")
	r.Conntrack.Exact.TCPEstablished = !c.implied("conntrack.tcpEstablishedTimeout")
	r.Conntrack.Exact.TCPCloseWait = !c.implied("conntrack.tcpCloseWaitTimeout")
	return r
}

// ipvsSeconds is a timeout as IPVS counts it. One that is too long for that is the
// longest there is, which the kernel refuses by name.
func ipvsSeconds(d time.Duration) uint32 { return uint32(min(int64(d/time.Second), math.MaxInt32)) }
