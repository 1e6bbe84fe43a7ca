package rules

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// services is nat KUBE-SERVICES: what of the traffic to fronts is masqueraded.
func (s *scope) services() []string {
	markMasq := s.to(kernel.ChainMarkMasq)
	rules := []string{s.byFamily("-s 127.0.0.0/8", "-s ::1/128") + " -j RETURN"}
	if s.has(kernel.LoadBalancer) {
		rules = append(rules, s.match(kernel.LoadBalancer, "dst,dst")+s.to(kernel.ChainLoadBalancer))
	}
	if s.has(kernel.ClusterIP) {
		rules = append(rules, s.clusterIPs()+markMasq)
	}
	if s.has(kernel.ExternalIP) {
		rules = append(rules, s.match(kernel.ExternalIP, "dst,dst")+markMasq)
		rules = append(rules, s.acceptExternal(kernel.ExternalIP)...)
	}
	if s.has(kernel.ExternalIPLocal) {
		rules = append(rules, s.acceptExternal(kernel.ExternalIPLocal)...)
	}
	// Before node ports, which are known without addresses: a VIP's port that has
	// the number of another service's node port would be masqueraded like that
	// one. kube-proxy has these rules last.
	for _, set := range []kernel.SetName{kernel.ClusterIP, kernel.LoadBalancer} {
		if s.has(set) {
			rules = append(rules, s.in(set, "dst,dst")+"-j ACCEPT")
		}
	}
	return append(rules, "-m addrtype --dst-type LOCAL "+s.to(kernel.ChainNodePort))
}

// clusterIPs matches the traffic to cluster IPs that is masqueraded: all of it, or what does not come
// from this node's own workloads, or, when those cannot be told, only what the host itself sends: it has
// a VIP as its source, and the endpoint's answer to that would stay with the endpoint's own node.
func (s *scope) clusterIPs() string {
	if s.config.MasqueradeAll {
		return s.match(kernel.ClusterIP, "dst,dst")
	}
	if notLocal := s.notLocal(); notLocal != "" {
		return notLocal + s.match(kernel.ClusterIP, "dst,dst")
	}
	return s.match(kernel.ClusterIP, "src,dst")
}

// notLocal matches what does not come from this node's own workloads; "" when they cannot be told.
func (s *scope) notLocal() string {
	cidrs := s.config.ClusterCIDRs
	switch s.config.DetectLocal {
	case DetectBridgeInterface:
		return "! -i " + s.config.BridgeInterface + " "
	case DetectInterfaceNamePrefix:
		return "! -i " + s.config.InterfaceNamePrefix + "+ "
	case DetectNodeCIDR:
		cidrs = s.config.LocalCIDRs
	}
	for _, c := range cidrs {
		if kernel.FamilyOf(c.Addr()) == s.family {
			return "! -s " + c.Masked().String() + " "
		}
	}
	return ""
}

// acceptExternal ends the chain for what comes to an external IP from off this machine, or finds it on
// this machine.
func (s *scope) acceptExternal(set kernel.SetName) []string {
	to := s.match(set, "dst,dst")
	notBridged := ""
	if s.node.BrNetfilter {
		notBridged = "-m physdev ! --physdev-is-in "
	}
	return []string{
		to + notBridged + "-m addrtype ! --src-type LOCAL -j ACCEPT",
		to + "-m addrtype --dst-type LOCAL -j ACCEPT",
	}
}

// loadBalancer is nat KUBE-LOAD-BALANCER: all is masqueraded but where the policy is Local.
func (s *scope) loadBalancer() []string {
	var rules []string
	if s.has(kernel.LoadBalancerLocal) {
		rules = append(rules, s.match(kernel.LoadBalancerLocal, "dst,dst")+"-j RETURN")
	}
	return append(rules, s.to(kernel.ChainMarkMasq))
}

// nodePort is nat KUBE-NODE-PORT: node ports are masqueraded but where the policy is Local.
func (s *scope) nodePort() []string {
	var rules []string
	add := func(proto kernel.Proto, set kernel.SetName, parts, target string) {
		if s.has(set) {
			rules = append(rules, "-p "+proto.String()+" "+s.match(set, parts)+target)
		}
	}
	markMasq := s.to(kernel.ChainMarkMasq)
	add(kernel.TCP, kernel.NodePortLocalTCP, "dst", "-j RETURN")
	add(kernel.TCP, kernel.NodePortTCP, "dst", markMasq)
	add(kernel.UDP, kernel.NodePortLocalUDP, "dst", "-j RETURN")
	add(kernel.UDP, kernel.NodePortUDP, "dst", markMasq)
	add(kernel.SCTP, kernel.NodePortLocalSCTP, "dst,dst", "-j RETURN")
	add(kernel.SCTP, kernel.NodePortSCTP, "dst,dst", markMasq)
	return rules
}

// mark is the bit that says "masquerade this".
func (s *scope) mark() string { return fmt.Sprintf("%#x", uint32(1)<<s.config.MasqueradeBit) }

// markMasq is nat KUBE-MARK-MASQ.
func (s *scope) markMasq() []string {
	return []string{"-j MARK --set-xmark " + s.mark() + "/" + s.mark()}
}

// postrouting is nat KUBE-POSTROUTING: hairpin traffic and what is marked is masqueraded. The mark is
// cleared first (xor), lest a packet that comes by again, in a tunnel say, be masqueraded again.
func (s *scope) postrouting() []string {
	var rules []string
	if s.has(kernel.LoopBack) {
		rules = append(rules, s.match(kernel.LoopBack, "dst,dst,src")+"-j MASQUERADE")
	}
	return append(rules,
		"-m mark ! --mark "+s.mark()+"/"+s.mark()+" -j RETURN",
		"-j MARK --set-xmark "+s.mark()+"/0x0",
		comment("kubernetes service traffic requiring SNAT")+"-j MASQUERADE --random-fully")
}
