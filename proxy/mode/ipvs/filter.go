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
	for _, set := range s.opening() {
		rules = append(rules, s.in(set, "dst,dst")+"-j RETURN")
	}
	rules = append(rules, s.in(kernel.HealthCheckNodePort, "dst")+"-j RETURN")
	rules = append(rules, s.marked()...)
	if s.Config.VIPPing {
		rules = append(rules, s.Ping()+"-j RETURN")
	}
	return append(rules, "-m conntrack --ctstate NEW "+s.in(kernel.IPVSIPs, "dst")+
		s.Reject())
}

// opening are the sets whose entries open VIPs. The lean layout has those with entries first. The empty
// ones stay behind them: a change can fill one after the rules were written, and then remove the entry that let
// the VIP's packets pass until then.
func (s *scope) opening() []kernel.SetName {
	sets := []kernel.SetName{kernel.LoadBalancer, kernel.ClusterIP, kernel.ExternalIP, kernel.ExternalIPLocal}
	if s.Config.Lean {
		kernel.SortStableFunc(sets, func(a, b kernel.SetName) int {
			switch {
			case s.has(a) == s.has(b):
				return 0
			case s.has(a):
				return -1
			}
			return 1
		})
	}
	return sets
}

// marked lets the packets pass that services by firewall mark serve, also to a VIP: one rule for each mark.
func (s *scope) marked() (rules []string) {
	for i := range s.Frontends.Fronts {
		x := &s.Frontends.Fronts[i]
		if x.Traits.Has(frontend.Marked) && x.Key.Family() == s.Family {
			rules = append(rules, kernel.MarkRule(x.Key))
		}
	}
	return rules
}

// ipvsOutFilter is filter KUBE-IPVS-OUT-FILTER. It keeps the host itself from load
// balancer IPs whose source ranges do not contain it. The host's traffic has the
// VIP as its source and does not pass the chains that filter other sources, so
// each VIP:port needs a rule.
//
// In nftables no rule sees what IPVS did to a packet, so its chain is in table raw, before IPVS. There the sets
// tell by the source that the packet is the host's own to one of these VIPs.
func (s *scope) ipvsOutFilter() []string {
	if s.Config.Native {
		if s.Config.Lean && !s.has(kernel.LoadBalancerFW) {
			return nil
		}
		return []string{s.in(kernel.LoadBalancerFW, "dst,dst") + s.in(kernel.LoadBalancerFW, "src,dst") +
			"-m set ! --match-set " + s.Config.Names.Set(s.Family, kernel.LoadBalancerSourceIP) + " dst,dst,src -j DROP"}
	}
	var rules []string
	for i := range s.Frontends.Fronts {
		x := &s.Frontends.Fronts[i]
		if x.Key.Family() != s.Family || !x.Traits.Has(frontend.Restricted) || x.Traits.Has(frontend.NodeAllowed) {
			continue
		}
		vip := x.Key.Addr
		rules = append(rules, fmt.Sprintf("-s %s/%d -m ipvs --vproto %d --vaddr %s --vport %d -j DROP",
			vip, vip.BitLen(), x.Key.Proto, vip, x.Key.Port))
	}
	return rules
}
