package file

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

func readVIPs(s *draft, n node) error {
	d := s.d
	return d.list(n, `IP addresses, or tables { ip = "...", ipMode = "..." }`, func(n node) {
		var vip sources.VIP
		before := len(d.problems)
		if n.IsTable() {
			table(d, n, vipFields, &vip)
		} else if a, err := addr.Read(n); err == nil {
			vip.Addr = a
		} else {
			d.refuseValue(n, err)
		}
		switch {
		case len(d.problems) > before:
		case !vip.Addr.IsValid():
			d.refuse(n, "a load balancer IP has no ip")
		default:
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, vip)
		}
	})
}

// clientAddress applies keepClientAddress: vips whose endpoints see the clients' addresses are cluster IPs. It warns if
// clients' addresses are hidden, which was not asked for.
func (s *draft) clientAddress(n node) {
	words := n.Has("vips")
	keep := s.keepClient != nil && *s.keepClient
	switch {
	case s.keepClient != nil && !words:
		s.d.refuse(n, "keepClientAddress has no effect without vips")
	case keep && slices.ContainsFunc(s.LoadBalancerIPs, func(v sources.VIP) bool {
		return v.Mode != sources.IPModeDefault
	}):
		s.d.refuse(n, "keepClientAddress = true: a VIP with an ipMode is a load balancer's, and hides clients' addresses")
	case keep && len(s.SourceRanges) > 0:
		s.d.refuse(n, "keepClientAddress = true: loadBalancerSourceRanges guard load balancer IPs only, and these VIPs "+
			"would be open to everyone")
	case keep:
		for _, v := range s.LoadBalancerIPs {
			s.ClusterIPs = append(s.ClusterIPs, v.Addr)
		}
		s.LoadBalancerIPs, s.KeepsClients = nil, true
	case s.keepClient == nil && words && hidesClients(&s.Service):
		s.d.warn(n, "unless ipvs.forward says otherwise, endpoints see this node's address instead of the client's: write "+
			"keepClientAddress = false if that is right, or true if their answers come back through this node")
	}
}

// hidesClients reports whether a service's endpoints see the node's address as that of clients outside.
func hidesClients(s *sources.Service) bool {
	return len(s.LoadBalancerIPs) > 0 && s.ExternalTrafficPolicy == sources.Cluster &&
		(s.Forward == "" || s.Forward == sources.Masquerade)
}

var vipFields = fields.Table[sources.VIP]{
	fields.Define("ip", fields.At(func(v *sources.VIP) *netip.Addr { return &v.Addr }, addr),
		"", "required in a table; an address alone is the same without ipMode"),
	fields.Define("ipMode", fields.At(func(v *sources.VIP) *sources.IPMode {
		return &v.Mode
	}, word(sources.IPModeDefault, sources.IPModeVIP, sources.IPModeProxy)),
		`""`, "VIP, as is \"\": packets arrive with this address, the node serves it; Proxy: they arrive at node ports, it "+
			"does not"),
}

func readClusterIP(s *draft, n node) error {
	if given, _ := n.Text(); given == "None" {
		s.d.refuse(n, `clusterIP "None": write type = "Headless" and no clusterIP`)
		return nil
	}
	s.d.addr(n, &s.ClusterIPs)
	return nil
}

func readClusterIPs(s *draft, n node) error {
	return s.d.addrs(n, &s.ClusterIPs)
}

// prefix is a CIDR, which may have bits beyond its length.
var prefix = fields.Parsed(fields.KindCIDRs, `a CIDR in quotes such as "10.0.0.0/8"`,
	func(s string) (netip.Prefix, error) { return fields.ParsePrefix(s, "") }, netip.Prefix.String)

// readSourceRanges masks CIDRs, as an API server does, and warns of it.
func readSourceRanges(s *draft, n node) error {
	return s.d.list(n, "CIDRs", func(n node) {
		if p, ok := s.d.network(n); ok {
			s.SourceRanges = append(s.SourceRanges, p)
		}
	})
}
