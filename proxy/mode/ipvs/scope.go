package ipvs

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// scope writes the chains of one family. Rules are compared as text, so each must
// be written exactly as iptables-save prints it: addresses, interfaces and
// protocol first, then the matches in the order given, the comment first of these.
type scope struct {
	*writer
	family kernel.Family
	filled map[string]bool // sets with entries, by full name
}

// chains returns all chains of the family: ours, and the built-in ones with our
// jumps. The number of rules does not depend on the number of services, except in
// KUBE-IPVS-OUT-FILTER.
func (s *scope) chains() []kernel.Chain {
	return []kernel.Chain{
		s.chain("nat", "PREROUTING", s.jump("kubernetes service portals", kernel.ChainServices)),
		s.chain("nat", "OUTPUT", s.jump("kubernetes service portals", kernel.ChainServices)),
		s.chain("nat", "POSTROUTING", s.jump("kubernetes postrouting rules", kernel.ChainPostrouting)),
		s.ours("nat", kernel.ChainServices, s.services()...),
		s.ours("nat", kernel.ChainLoadBalancer, s.loadBalancer()...),
		s.ours("nat", kernel.ChainNodePort, s.nodePort()...),
		s.ours("nat", kernel.ChainMarkMasq, s.markMasq()...),
		s.ours("nat", kernel.ChainPostrouting, s.postrouting()...),

		s.chain("filter", "INPUT",
			s.jump("kubernetes ipvs access filter", kernel.ChainIPVSFilter),
			s.jump("kube-proxy firewall rules", kernel.ChainProxyFirewall),
			s.jump("kubernetes health check rules", kernel.ChainNodePort)),
		s.chain("filter", "FORWARD",
			s.jump("kube-proxy firewall rules", kernel.ChainProxyFirewall),
			s.jump("kubernetes forwarding rules", kernel.ChainForward)),
		s.chain("filter", "OUTPUT", s.jump("kubernetes ipvs access filter", kernel.ChainIPVSOutFilter)),
		s.ours("filter", kernel.ChainForward, s.forward()...),
		s.ours("filter", kernel.ChainNodePort, s.match(kernel.HealthCheckNodePort, "dst")+"-j ACCEPT"),
		s.ours("filter", kernel.ChainProxyFirewall, s.proxyFirewall()...),
		s.ours("filter", kernel.ChainSourceRangesFirewall, s.sourceRanges()...),
		s.ours("filter", kernel.ChainIPVSFilter, s.ipvsFilter()...),
		s.ours("filter", kernel.ChainIPVSOutFilter, s.ipvsOutFilter()...),
	}
}

func (s *scope) chain(table, name string, rules ...string) kernel.Chain {
	return kernel.Chain{Family: s.family, Table: table, Name: name, Rules: strings.Join(rules, "\n")}
}

func (s *scope) ours(table string, name kernel.ChainName, rules ...string) kernel.Chain {
	return s.chain(table, s.config.Names.Chain(name), rules...)
}

func comment(text string) string { return `-m comment --comment "` + text + `" ` }

func (s *scope) jump(why string, to kernel.ChainName) string { return comment(why) + s.to(to) }

func (s *scope) to(c kernel.ChainName) string { return "-j " + s.config.Names.Chain(c) }

// in matches packets of which some parts, each with a direction, are in a set.
func (s *scope) in(set kernel.SetName, parts string) string {
	return "-m set --match-set " + s.config.Names.Set(s.family, set) + " " + parts + " "
}

// match is like in, with the set's comment.
func (s *scope) match(set kernel.SetName, parts string) string {
	return comment(setComments[set]) + s.in(set, parts)
}

// has reports whether a set has entries.
func (s *scope) has(set kernel.SetName) bool {
	return s.filled[s.config.Names.Set(s.family, set)]
}

// byFamily returns the text for the scope's family.
func (s *scope) byFamily(v4, v6 string) string {
	if s.family == kernel.IPv6 {
		return v6
	}
	return v4
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
