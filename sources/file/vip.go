package file

import (
	"net/netip"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

func readVIPs(d *decoder, n node, s *draft) {
	d.list(n, `IP addresses, or tables { ip = "...", ipMode = "..." }`, func(n node) {
		var vip sources.VIP
		if _, ok := n.v.(map[string]any); !ok {
			if a, ok := d.addr(n); ok {
				s.LoadBalancerIPs = append(s.LoadBalancerIPs, sources.VIP{Addr: a})
			}
			return
		}
		before := len(d.problems)
		table(d, n, vipFields, &vip)
		switch {
		case len(d.problems) > before:
		case !vip.Addr.IsValid():
			d.refuse(n, "a load balancer IP has no ip")
		default:
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, vip)
		}
	})
}

var vipFields = fields[sources.VIP]{
	{"ip", value[sources.VIP]{Address, nil, func(d *decoder, n node, v *sources.VIP) { v.Addr, _ = d.addr(n) }},
		"", "required in a table; an address alone is the same without ipMode"},
	{"ipMode", wordAt(func(v *sources.VIP) *sources.IPMode { return &v.Mode }, sources.IPModeDefault, sources.IPModeVIP, sources.IPModeProxy),
		`""`, "VIP, as is \"\": packets arrive with this address, the node serves it; Proxy: they arrive at node ports, it does not"},
}

func readClusterIP(d *decoder, n node, s *draft) {
	s.clusterIP = true
	if given, _ := n.text(); given == "None" {
		d.refuse(n, `clusterIP "None": write type = "Headless" and no clusterIP`)
	} else if a, ok := d.addr(n); ok {
		s.ClusterIPs = append(s.ClusterIPs, a)
	}
}

func readClusterIPs(d *decoder, n node, s *draft) {
	s.clusterIPs = true
	d.addrs(n, &s.ClusterIPs)
}

func readExternalIPs(d *decoder, n node, s *draft) { d.addrs(n, &s.ExternalIPs) }

func readSourceRanges(d *decoder, n node, s *draft) {
	d.list(n, "CIDRs", func(n node) { readRange(d, n, &s.SourceRanges) })
}

// readRange reads a CIDR as an API server does: spaces around it do not count.
func readRange(d *decoder, n node, into *[]netip.Prefix) {
	s, ok := n.text()
	if !ok {
		d.mistyped(n, `a CIDR in quotes such as "10.0.0.0/8"`)
		return
	}
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil {
		hint := ` such as "10.0.0.0/8"`
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil && a.Zone() == "" {
			hint = `: write "` + netip.PrefixFrom(a, a.BitLen()).String() + `"`
		}
		d.refuse(n, "%s %q is not a CIDR%s", n.key, s, hint)
		return
	}
	if p.Addr().Is4In6() {
		d.refuse(n, "%s %q is an IPv4 range in IPv6 clothing: write it as IPv4", n.key, s)
		return
	}
	if p != p.Masked() {
		d.warn(n, "%s %q has bits beyond its prefix length: taken as %q", n.key, s, p.Masked())
	}
	*into = append(*into, p.Masked())
}
