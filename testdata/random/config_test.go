package random

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/rules"
)

// config draws a configuration, now and then with everything as it is by default.
func (d draw) config() rules.Config {
	c := rules.Config{
		Names: kernel.DefaultNames, IPv6: true, Scheduler: "rr",
		MasqueradeBit: 14, VIPBinding: rules.BindAuto, VIPPing: true,
	}
	if d.chance(4) {
		return c
	}
	c.Scheduler = pick(d, "rr", "wlc", "mh")
	c.MasqueradeAll = d.chance(3)
	c.MasqueradeBit = pick[uint8](d, 14, 14, 15)
	c.DetectLocal = pick(d, rules.DetectClusterCIDR, rules.DetectNodeCIDR, rules.DetectBridgeInterface, rules.DetectInterfaceNamePrefix)
	c.ClusterCIDRs = pick(d, nil, []netip.Prefix{prefix("10.2.0.0/16")}, []netip.Prefix{prefix("10.2.0.0/16"), prefix("fd00:2::/32")})
	c.BridgeInterface, c.InterfaceNamePrefix = "br0", "veth"
	c.NodePortAddresses = pick(d, nil, []netip.Prefix{prefix("192.0.2.1/32")}, []netip.Prefix{prefix("192.0.2.0/24"), prefix("2001:db8::/64")})
	c.NodePortPrimary = d.chance(4)
	c.LocalCIDRs = pick(d, nil, []netip.Prefix{prefix("10.2.1.0/24"), prefix("fd00:2:1::/64")})
	c.LocalFallback = pick(d, rules.FallbackDrop, rules.FallbackCluster)
	c.VIPBinding = pick(d, rules.BindAuto, rules.BindAddress, rules.BindRoute)
	c.StrictARP, c.VIPPing = d.chance(3), d.chance(2)
	if d.chance(3) {
		// Those of a network namespace's own.
		c.Conntrack = rules.Conntrack{
			TCPEstablished: time.Duration(d.IntN(3)) * time.Hour, TCPCloseWait: time.Duration(d.IntN(3)) * time.Minute,
			UDP: time.Duration(d.IntN(3)) * time.Minute, UDPStream: time.Duration(d.IntN(3)) * time.Minute, TCPBeLiberal: d.chance(2),
		}
	}
	return c
}
