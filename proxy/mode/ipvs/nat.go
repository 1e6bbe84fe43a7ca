package ipvs

import "github.com/svcproxy/svcproxy/kernel"

// services is nat KUBE-SERVICES. It decides which traffic to fronts is masqueraded.
func (s *scope) services() []string {
	markMasq := s.To(kernel.ChainMarkMasq)
	var rules []string
	if !s.Config.Lean {
		rules = append(rules, s.loopback()+"-j RETURN")
	}
	if s.has(kernel.LoadBalancer) {
		rules = append(rules, s.match(kernel.LoadBalancer, "dst,dst")+s.To(kernel.ChainLoadBalancer))
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
	return append(rules, s.toNodePorts()...)
}

// clusterIPs matches the traffic to cluster IPs that is masqueraded: all of it, or
// what does not come from this node's own workloads. If these cannot be
// recognised, it matches only the host's own traffic: that has a VIP as its
// source, and an endpoint's reply to it would not leave the endpoint's node.
func (s *scope) clusterIPs() string {
	if s.Config.MasqueradeAll {
		return s.match(kernel.ClusterIP, "dst,dst")
	}
	if local := s.Local(); local != "" {
		return "! " + local + s.match(kernel.ClusterIP, "dst,dst")
	}
	return s.match(kernel.ClusterIP, "src,dst")
}

// acceptExternal accepts traffic to an external IP that comes from another
// machine, or whose external IP is on this one.
func (s *scope) acceptExternal(set kernel.SetName) []string {
	to := s.match(set, "dst,dst")
	notBridged := ""
	if s.Frontends.Node.BrNetfilter && !s.Config.Native {
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
	return append(rules, s.To(kernel.ChainMarkMasq))
}

// nodePort is nat KUBE-NODE-PORT. Traffic is masqueraded, except under policy Local.
func (s *scope) nodePort() []string {
	var rules []string
	add := func(proto kernel.Proto, set kernel.SetName, parts, target string) {
		if s.has(set) {
			rules = append(rules, "-p "+proto.String()+" "+s.match(set, parts)+target)
		}
	}
	markMasq := s.To(kernel.ChainMarkMasq)
	add(kernel.TCP, kernel.NodePortLocalTCP, "dst", "-j RETURN")
	add(kernel.TCP, kernel.NodePortTCP, "dst", markMasq)
	add(kernel.UDP, kernel.NodePortLocalUDP, "dst", "-j RETURN")
	add(kernel.UDP, kernel.NodePortUDP, "dst", markMasq)
	add(kernel.SCTP, kernel.NodePortLocalSCTP, "dst,dst", "-j RETURN")
	add(kernel.SCTP, kernel.NodePortSCTP, "dst,dst", markMasq)
	return rules
}

// hairpins are the rules of KUBE-POSTROUTING for hairpin traffic.
func (s *scope) hairpins() []string {
	if !s.has(kernel.LoopBack) {
		return nil
	}
	return []string{s.match(kernel.LoopBack, "dst,dst,src") + "-j MASQUERADE"}
}
