package ipvs

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// services is nat KUBE-SERVICES. It decides which traffic to fronts is masqueraded.
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
	// These come before node ports, whose sets have no addresses. Otherwise a
	// VIP's port with the number of another service's node port would be
	// masqueraded like that one. kube-proxy has these rules last.
	for _, set := range []kernel.SetName{kernel.ClusterIP, kernel.LoadBalancer} {
		if s.has(set) {
			rules = append(rules, s.in(set, "dst,dst")+"-j ACCEPT")
		}
	}
	return append(rules, "-m addrtype --dst-type LOCAL "+s.to(kernel.ChainNodePort))
}

// clusterIPs matches the traffic to cluster IPs that is masqueraded: all of it, or
// what does not come from this node's own workloads. If these cannot be
// recognised, it matches only the host's own traffic: that has a VIP as its
// source, and an endpoint's reply to it would not leave the endpoint's node.
func (s *scope) clusterIPs() string {
	if s.config.MasqueradeAll {
		return s.match(kernel.ClusterIP, "dst,dst")
	}
	if notLocal := s.notLocal(); notLocal != "" {
		return notLocal + s.match(kernel.ClusterIP, "dst,dst")
	}
	return s.match(kernel.ClusterIP, "src,dst")
}

// notLocal matches what does not come from this node's own workloads. It returns
// "" if these cannot be recognised.
func (s *scope) notLocal() string {
	cidrs := s.config.ClusterCIDRs
	switch s.config.DetectLocal {
	case mode.DetectBridgeInterface:
		return "! -i " + s.config.BridgeInterface + " "
	case mode.DetectInterfaceNamePrefix:
		return "! -i " + s.config.InterfaceNamePrefix + "+ "
	case mode.DetectNodeCIDR:
		cidrs = s.f.Config.LocalCIDRs
	}
	for _, c := range cidrs {
		if kernel.FamilyOf(c.Addr()) == s.family {
			return "! -s " + c.Masked().String() + " "
		}
	}
	return ""
}

// acceptExternal accepts traffic to an external IP that comes from another
// machine, or whose external IP is on this one.
func (s *scope) acceptExternal(set kernel.SetName) []string {
	to := s.match(set, "dst,dst")
	notBridged := ""
	if s.f.Node.BrNetfilter {
		notBridged = "-m physdev ! --physdev-is-in "
	}
	return []string{
		to + notBridged + "-m addrtype ! --src-type LOCAL -j ACCEPT",
		to + "-m addrtype --dst-type LOCAL -j ACCEPT",
	}
}

// loadBalancer is nat KUBE-LOAD-BALANCER. Traffic is masqueraded, except under
// policy Local.
func (s *scope) loadBalancer() []string {
	var rules []string
	if s.has(kernel.LoadBalancerLocal) {
		rules = append(rules, s.match(kernel.LoadBalancerLocal, "dst,dst")+"-j RETURN")
	}
	return append(rules, s.to(kernel.ChainMarkMasq))
}

// nodePort is nat KUBE-NODE-PORT. Traffic is masqueraded, except under policy Local.
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

// mark is the packet mark that asks for masquerading.
func (s *scope) mark() string { return fmt.Sprintf("%#x", uint32(1)<<s.config.MasqueradeBit) }

// markMasq is nat KUBE-MARK-MASQ.
func (s *scope) markMasq() []string {
	return []string{"-j MARK --set-xmark " + s.mark() + "/" + s.mark()}
}

// postrouting is nat KUBE-POSTROUTING. It masquerades hairpin traffic and marked
// packets. The mark is cleared first (xor): a packet that passes again, for
// example in a tunnel, must not be masqueraded twice.
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
