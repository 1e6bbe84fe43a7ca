package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// scope writes the chains of one family. In its rules the comment is the first match, but for jumps of the lean layout.
type scope struct {
	mode.Scope
	filled map[string]bool // sets with entries, by full name
}

// chains returns all chains of the family: ours, and the built-in ones with our
// jumps. The number of rules does not depend on the number of services, except in
// KUBE-IPVS-OUT-FILTER.
func (s *scope) chains() []kernel.Chain {
	chains := []kernel.Chain{
		s.Chain("nat", "PREROUTING", s.toServices()),
		s.Chain("nat", "OUTPUT", s.toServices()),
		s.Chain("nat", "POSTROUTING", s.toPostrouting()),
		s.Ours("nat", kernel.ChainServices, s.services()...),
		s.Ours("nat", kernel.ChainLoadBalancer, s.loadBalancer()...),
		s.Ours("nat", kernel.ChainNodePort, s.nodePort()...),
		s.MarkMasq(),
		s.Postrouting(s.hairpins()...),

		s.forward(),
		s.Ours("filter", kernel.ChainNodePort, s.healthChecks()...),
		s.Ours("filter", kernel.ChainProxyFirewall, s.proxyFirewall()...),
		s.Ours("filter", kernel.ChainSourceRangesFirewall, s.sourceRanges()...),
		s.Ours("filter", kernel.ChainIPVSFilter, s.ipvsFilter()...),
		s.Ours(s.outTable(), kernel.ChainIPVSOutFilter, s.ipvsOutFilter()...),
	}
	return append(chains, s.filterJumps()...)
}

// outTable is the table of KUBE-IPVS-OUT-FILTER.
func (s *scope) outTable() string {
	if s.Config.Native {
		return "raw"
	}
	return "filter"
}

// in matches packets of which some parts, each with a direction, are in a set.
func (s *scope) in(set kernel.SetName, parts string) string {
	return "-m set --match-set " + s.Config.Names.Set(s.Family, set) + " " + parts + " "
}

// match is like in, with the set's comment.
func (s *scope) match(set kernel.SetName, parts string) string {
	return mode.Comment(setComment(set)) + s.in(set, parts)
}

// has reports whether a set has entries.
func (s *scope) has(set kernel.SetName) bool {
	return s.filled[s.Config.Names.Set(s.Family, set)]
}

// setComment returns the comment of kube-proxy, quoted as iptables-save does.
func setComment(set kernel.SetName) string {
	switch set {
	case kernel.LoopBack:
		return "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"
	case kernel.ClusterIP:
		return "Kubernetes service cluster ip + port for masquerade purpose"
	case kernel.ExternalIP:
		return "Kubernetes service external ip + port for masquerade and filter purpose"
	case kernel.ExternalIPLocal:
		return "Kubernetes service external ip + port with externalTrafficPolicy=local"
	case kernel.LoadBalancer:
		return "Kubernetes service lb portal"
	case kernel.LoadBalancerLocal:
		return "Kubernetes service load balancer ip + port with externalTrafficPolicy=local"
	case kernel.LoadBalancerFW:
		return "Kubernetes service load balancer ip + port for load balancer with sourceRange"
	case kernel.LoadBalancerSourceIP:
		return "Kubernetes service load balancer ip + port + source IP for packet filter purpose"
	case kernel.LoadBalancerSourceCIDR:
		return "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"
	case kernel.NodePortTCP:
		return "Kubernetes nodeport TCP port for masquerade purpose"
	case kernel.NodePortLocalTCP:
		return "Kubernetes nodeport TCP port with externalTrafficPolicy=local"
	case kernel.NodePortUDP:
		return "Kubernetes nodeport UDP port for masquerade purpose"
	case kernel.NodePortLocalUDP:
		return "Kubernetes nodeport UDP port with externalTrafficPolicy=local"
	case kernel.NodePortSCTP:
		return "Kubernetes nodeport SCTP port for masquerade purpose with type \\'hash ip:port\\'"
	case kernel.NodePortLocalSCTP:
		return "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type \\'hash ip:port\\'"
	case kernel.HealthCheckNodePort:
		return "Kubernetes health check node port"
	}
	return ""
}
