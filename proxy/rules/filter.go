package rules

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// forward is filter KUBE-FORWARD: what we balanced gets through, and the rest of its connection.
func (s *scope) forward() []string {
	return []string{
		comment("kubernetes forwarding rules") + "-m mark --mark " + s.mark() + "/" + s.mark() + " -j ACCEPT",
		comment("kubernetes forwarding conntrack rule") + "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
	}
}

// proxyFirewall is filter KUBE-PROXY-FIREWALL: load balancer IPs with source ranges.
func (s *scope) proxyFirewall() []string {
	if !s.has(kernel.LoadBalancerFW) {
		return nil
	}
	return []string{s.match(kernel.LoadBalancerFW, "dst,dst") + s.to(kernel.ChainSourceRangesFirewall)}
}

// sourceRanges is filter KUBE-SOURCE-RANGES-FIREWALL: who may use them.
func (s *scope) sourceRanges() []string {
	var rules []string
	for _, set := range []kernel.SetName{kernel.LoadBalancerSourceCIDR, kernel.LoadBalancerSourceIP} {
		if s.has(set) {
			rules = append(rules, s.match(set, "dst,dst,src")+"-j RETURN")
		}
	}
	return append(rules, "-j DROP")
}

// ipvsFilter is filter KUBE-IPVS-FILTER. A bound VIP is an address of the host, and whatever listens on
// all of those, sshd say, must not be reachable through it: only what is served is, and a ping.
func (s *scope) ipvsFilter() []string {
	var rules []string
	for _, set := range []kernel.SetName{kernel.LoadBalancer, kernel.ClusterIP, kernel.ExternalIP, kernel.ExternalIPLocal} {
		rules = append(rules, s.in(set, "dst,dst")+"-j RETURN")
	}
	rules = append(rules, s.in(kernel.HealthCheckNodePort, "dst")+"-j RETURN")
	if s.config.VIPPing {
		rules = append(rules, s.byFamily("-p icmp -m icmp --icmp-type 8", "-p ipv6-icmp -m icmp6 --icmpv6-type 128")+" -j RETURN")
	}
	return append(rules, "-m conntrack --ctstate NEW "+s.in(kernel.IPVSIPs, "dst")+
		"-j REJECT --reject-with "+s.byFamily("icmp-port-unreachable", "icmp6-port-unreachable"))
}

// ipvsOutFilter is filter KUBE-IPVS-OUT-FILTER: it keeps the host itself from load balancer IPs whose
// source ranges do not cover it. Its traffic has the VIP as its source and does not pass the chains that
// keep others out, so each VIP:port needs a rule.
func (s *scope) ipvsOutFilter(l *listing) []string {
	var rules []string
	for _, f := range l.fronts {
		if f.key.Family() != s.family || f.traits&(restricted|nodeAllowed) != restricted {
			continue
		}
		vip := f.key.Addr.Addr()
		rules = append(rules, fmt.Sprintf("-s %s/%d -m ipvs --vproto %d --vaddr %s --vport %d -j DROP",
			vip, vip.BitLen(), f.key.Proto, vip, f.key.Addr.Port()))
	}
	return rules
}
