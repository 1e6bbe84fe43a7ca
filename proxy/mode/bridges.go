package mode

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Bridged returns a warning for each bridge of the node that has endpoints and
// whose packets do not pass iptables. On such a bridge the reply of one port to
// another bypasses IPVS and carries the endpoint's address instead of the VIP, so
// a client on the same bridge waits forever. One endpoint per bridge and family is
// named. Masqueraded traffic is not affected, because its replies go to the node.
func Bridged(t sources.Table, n kernel.Node, c Config) []string {
	if c.MasqueradeAll {
		return nil
	}
	var lines []string
	seen := make(map[netip.Prefix]bool)
	for _, b := range n.Bridges {
		for _, a := range n.Addrs {
			family := kernel.FamilyOf(a.Prefix.Addr())
			if a.Link != b.Link || a.Prefix.IsSingleIP() || b.Filtered(family) || seen[a.Prefix.Masked()] {
				continue
			}
			if s, e := endpointIn(t, a.Prefix); s != nil {
				seen[a.Prefix.Masked()] = true
				lines = append(lines, fmt.Sprintf("endpoint %s of %s is on bridge %s, whose packets do not pass %s: "+
					"from the same bridge its service is not reached: modprobe br_netfilter, "+
					"and sysctl net.bridge.bridge-nf-call-%s=1",
					e.Addr, s.DisplayName(), b.Link, family.Tool(), family.Tool()))
			}
		}
	}
	return lines
}

// endpointIn finds an endpoint inside a network of the node. The node's own
// address does not count.
func endpointIn(t sources.Table, p netip.Prefix) (*sources.Service, *sources.Endpoint) {
	for i := range t.Services.Len() {
		s := t.Services.At(i)
		for j := range s.Endpoints {
			if e := &s.Endpoints[j]; p.Contains(e.Addr) && e.Addr != p.Addr() {
				return s, e
			}
		}
	}
	return nil, nil
}
