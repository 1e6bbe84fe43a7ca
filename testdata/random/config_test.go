package random

import (
	"net/netip"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// config draws a configuration, now and then with everything as it is by default.
func (d draw) config() mode.Config {
	c := mode.Config{
		Frontends: frontend.Config{IPv6: true, Scheduler: "rr"}, Names: kernel.DefaultNames,
		MasqueradeBit: 14, VIPBinding: mode.BindAuto, VIPPing: true,
	}
	if d.chance(4) {
		return c
	}
	c.Frontends.Scheduler = pick(d, "rr", "wlc", "mh")
	c.MasqueradeAll = d.chance(3)
	c.MasqueradeBit = pick[uint8](d, 14, 14, 15)
	c.DetectLocal = pick(d, mode.DetectClusterCIDR, mode.DetectNodeCIDR, mode.DetectBridgeInterface, mode.DetectInterfaceNamePrefix)
	c.ClusterCIDRs = pick(d, nil, []netip.Prefix{prefix("10.2.0.0/16")}, []netip.Prefix{prefix("10.2.0.0/16"), prefix("fd00:2::/32")})
	c.BridgeInterface, c.InterfaceNamePrefix = "br0", "veth"
	c.Frontends.NodePortAddresses = pick(d, nil, []netip.Prefix{prefix("192.0.2.1/32")}, []netip.Prefix{prefix("192.0.2.0/24"), prefix("2001:db8::/64")})
	c.Frontends.NodePortPrimary = d.chance(4)
	c.Frontends.LocalCIDRs = pick(d, nil, []netip.Prefix{prefix("10.2.1.0/24"), prefix("fd00:2:1::/64")})
	c.Frontends.LocalFallback = pick(d, frontend.FallbackDrop, frontend.FallbackCluster)
	c.VIPBinding = pick(d, mode.BindAuto, mode.BindAddress, mode.BindRoute)
	c.StrictARP, c.VIPPing, c.Lean = d.chance(3), d.chance(2), d.chance(2)
	if d.chance(3) {
		// Those of a network namespace's own.
		c.Conntrack = mode.Conntrack{
			TCPEstablished: time.Duration(d.IntN(3)) * time.Hour, TCPCloseWait: time.Duration(d.IntN(3)) * time.Minute,
			UDP: time.Duration(d.IntN(3)) * time.Minute, UDPStream: time.Duration(d.IntN(3)) * time.Minute, TCPBeLiberal: d.chance(2),
		}
	}
	return c
}
