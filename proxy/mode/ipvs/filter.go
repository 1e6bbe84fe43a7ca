package ipvs

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// proxyFirewall is filter KUBE-PROXY-FIREWALL. It selects traffic to load
// balancer IPs with source ranges.
func (s *scope) proxyFirewall() []string {
	if !s.has(kernel.LoadBalancerFW) {
		return nil
	}
	return []string{s.match(kernel.LoadBalancerFW, "dst,dst") + s.To(kernel.ChainSourceRangesFirewall)}
}

// sourceRanges is filter KUBE-SOURCE-RANGES-FIREWALL. It drops such traffic if
// its source is in no range.
func (s *scope) sourceRanges() []string {
	var rules []string
	for _, set := range []kernel.SetName{kernel.LoadBalancerSourceCIDR, kernel.LoadBalancerSourceIP} {
		if s.has(set) {
			rules = append(rules, s.match(set, "dst,dst,src")+"-j RETURN")
		}
	}
	return append(rules, "-j DROP")
}

// ipvsFilter is filter KUBE-IPVS-FILTER. A bound VIP is an address of the host, so
// a program that listens on all addresses, such as sshd, would be reachable
// through it. This chain accepts only served ports, and pings.
func (s *scope) ipvsFilter() []string {
	var rules []string
	for _, set := range []kernel.SetName{kernel.LoadBalancer, kernel.ClusterIP, kernel.ExternalIP, kernel.ExternalIPLocal} {
		rules = append(rules, s.in(set, "dst,dst")+"-j RETURN")
	}
	rules = append(rules, s.in(kernel.HealthCheckNodePort, "dst")+"-j RETURN")
	if s.Config.VIPPing {
		rules = append(rules, s.Ping()+"-j RETURN")
	}
	return append(rules, "-m conntrack --ctstate NEW "+s.in(kernel.IPVSIPs, "dst")+
		s.Reject())
}

// ipvsOutFilter is filter KUBE-IPVS-OUT-FILTER. It keeps the host itself from load
// balancer IPs whose source ranges do not contain it. The host's traffic has the
// VIP as its source and does not pass the chains that filter other sources, so
// each VIP:port needs a rule.
func (s *scope) ipvsOutFilter() []string {
	var rules []string
	for i := range s.Frontends.Fronts {
		x := &s.Frontends.Fronts[i]
		if x.Key.Family() != s.Family || !x.Traits.Has(frontend.Restricted) || x.Traits.Has(frontend.NodeAllowed) {
			continue
		}
		vip := x.Key.Addr.Addr()
		rules = append(rules, fmt.Sprintf("-s %s/%d -m ipvs --vproto %d --vaddr %s --vport %d -j DROP",
			vip, vip.BitLen(), x.Key.Proto, vip, x.Key.Addr.Port()))
	}
	return rules
}
