package rules

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// Bridged says in lines for people that some endpoints are on a bridge of the node whose packets do not
// pass iptables: the reply of one port to another is bridged past IPVS, with the endpoint's address
// instead of the VIP's, and the client on the bridge waits for ever. One endpoint of a bridge and family
// stands for all. What is masqueraded is replied to by way of the node.
func Bridged(t sources.Table, n kernel.Node, c Config) []string {
	if c.MasqueradeAll {
		return nil
	}
	var lines []string
	said := make(map[netip.Prefix]bool)
	for _, b := range n.Bridges {
		for _, a := range n.Addrs {
			family := kernel.FamilyOf(a.Prefix.Addr())
			if a.Link != b.Link || a.Prefix.IsSingleIP() || b.Filtered(family) || said[a.Prefix.Masked()] {
				continue
			}
			if s, e := endpointIn(t, a.Prefix); s != nil {
				said[a.Prefix.Masked()] = true
				lines = append(lines, fmt.Sprintf("endpoint %s of %s is on bridge %s, whose packets do not pass %s: "+
					"from the same bridge its service is not reached: modprobe br_netfilter, and sysctl net.bridge.bridge-nf-call-%s=1",
					e.Addr, s.FullName(), b.Link, tables[family], tables[family]))
			}
		}
	}
	return lines
}

var tables = map[kernel.Family]string{kernel.IPv4: "iptables", kernel.IPv6: "ip6tables"}

// endpointIn finds an endpoint inside a network of the node, the node's own address apart.
func endpointIn(t sources.Table, p netip.Prefix) (*sources.Service, *sources.Endpoint) {
	for i := range t.Services {
		s := &t.Services[i]
		for j := range s.Endpoints {
			if e := &s.Endpoints[j]; p.Contains(e.Addr) && e.Addr != p.Addr() {
				return s, e
			}
		}
	}
	return nil, nil
}
