package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// scope writes the chains of one family. In its rules the comment is the first match.
type scope struct {
	mode.Scope
	filled map[string]bool // sets with entries, by full name
}

// chains returns all chains of the family: ours, and the built-in ones with our
// jumps. The number of rules does not depend on the number of services, except in
// KUBE-IPVS-OUT-FILTER.
func (s *scope) chains() []kernel.Chain {
	return []kernel.Chain{
		s.Chain("nat", "PREROUTING", s.Jump("kubernetes service portals", kernel.ChainServices)),
		s.Chain("nat", "OUTPUT", s.Jump("kubernetes service portals", kernel.ChainServices)),
		s.Chain("nat", "POSTROUTING", s.Jump("kubernetes postrouting rules", kernel.ChainPostrouting)),
		s.Ours("nat", kernel.ChainServices, s.services()...),
		s.Ours("nat", kernel.ChainLoadBalancer, s.loadBalancer()...),
		s.Ours("nat", kernel.ChainNodePort, s.nodePort()...),
		s.MarkMasq(),
		s.Postrouting(s.hairpins()...),

		s.Chain("filter", "INPUT",
			s.Jump("kubernetes ipvs access filter", kernel.ChainIPVSFilter),
			s.Jump("kube-proxy firewall rules", kernel.ChainProxyFirewall),
			s.Jump("kubernetes health check rules", kernel.ChainNodePort)),
		s.Chain("filter", "FORWARD",
			s.Jump("kube-proxy firewall rules", kernel.ChainProxyFirewall),
			s.Jump("kubernetes forwarding rules", kernel.ChainForward)),
		s.Chain("filter", "OUTPUT", s.Jump("kubernetes ipvs access filter", kernel.ChainIPVSOutFilter)),
		s.Forward(),
		s.Ours("filter", kernel.ChainNodePort, s.match(kernel.HealthCheckNodePort, "dst")+"-j ACCEPT"),
		s.Ours("filter", kernel.ChainProxyFirewall, s.proxyFirewall()...),
		s.Ours("filter", kernel.ChainSourceRangesFirewall, s.sourceRanges()...),
		s.Ours("filter", kernel.ChainIPVSFilter, s.ipvsFilter()...),
		s.Ours("filter", kernel.ChainIPVSOutFilter, s.ipvsOutFilter()...),
	}
}

// in matches packets of which some parts, each with a direction, are in a set.
func (s *scope) in(set kernel.SetName, parts string) string {
	return "-m set --match-set " + s.Config.Names.Set(s.Family, set) + " " + parts + " "
}

// match is like in, with the set's comment.
func (s *scope) match(set kernel.SetName, parts string) string {
	return mode.Comment(setComments[set]) + s.in(set, parts)
}

// has reports whether a set has entries.
func (s *scope) has(set kernel.SetName) bool {
	return s.filled[s.Config.Names.Set(s.Family, set)]
}

// setComments are those of kube-proxy, quoted as iptables-save does.
var setComments = map[kernel.SetName]string{
	kernel.LoopBack:               "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
	kernel.ClusterIP:              "Kubernetes service cluster ip + port for masquerade purpose",
	kernel.ExternalIP:             "Kubernetes service external ip + port for masquerade and filter purpose",
	kernel.ExternalIPLocal:        "Kubernetes service external ip + port with externalTrafficPolicy=local",
	kernel.LoadBalancer:           "Kubernetes service lb portal",
	kernel.LoadBalancerLocal:      "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
	kernel.LoadBalancerFW:         "Kubernetes service load balancer ip + port for load balancer with sourceRange",
	kernel.LoadBalancerSourceIP:   "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
	kernel.LoadBalancerSourceCIDR: "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
	kernel.NodePortTCP:            "Kubernetes nodeport TCP port for masquerade purpose",
	kernel.NodePortLocalTCP:       "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
	kernel.NodePortUDP:            "Kubernetes nodeport UDP port for masquerade purpose",
	kernel.NodePortLocalUDP:       "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
	kernel.NodePortSCTP:           "Kubernetes nodeport SCTP port for masquerade purpose with type \\'hash ip:port\\'",
	kernel.NodePortLocalSCTP:      "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type \\'hash ip:port\\'",
	kernel.HealthCheckNodePort:    "Kubernetes health check node port",
}
