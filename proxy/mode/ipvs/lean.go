package ipvs

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// The lean layout has kube-proxy's chains, with fewer rules on the path of a packet. A rule is omitted if it cannot
// match, because its set is empty or the chain that it jumps to has no rules. A jump has the condition that all rules
// behind it share. Rules of one verdict change places, so that packets of known connections leave first. Each packet
// has the same verdict in both layouts.

// loopback matches packets from the node's loopback, which are never masqueraded.
func (s *scope) loopback() string { return s.ByFamily("-s 127.0.0.0/8 ", "-s ::1/128 ") }

// toServices is the jump to nat KUBE-SERVICES.
func (s *scope) toServices() string {
	jump := s.Jump("kubernetes service portals", kernel.ChainServices)
	if s.Config.Lean {
		return "! " + s.loopback() + jump
	}
	return jump
}

// toPostrouting is the jump to nat KUBE-POSTROUTING. Without hairpins only marked packets have to go there.
func (s *scope) toPostrouting() string {
	jump := s.Jump("kubernetes postrouting rules", kernel.ChainPostrouting)
	if s.Config.Lean && len(s.hairpins()) == 0 {
		return s.Marked() + jump
	}
	return jump
}

// toFilter is the jump to filter KUBE-IPVS-FILTER, which refuses only packets in state NEW.
func (s *scope) toFilter() string {
	jump := s.Jump("kubernetes ipvs access filter", kernel.ChainIPVSFilter)
	if s.Config.Lean {
		return "-m conntrack --ctstate NEW " + jump
	}
	return jump
}

// filterJumps are the built-in chains of table filter, with the jumps to chains of ours. In the lean layout chains
// without rules have no jump, and a built-in chain without jumps is left out.
func (s *scope) filterJumps() []kernel.Chain {
	lean := s.Config.Lean
	var firewall, health []string
	if !lean || len(s.proxyFirewall()) > 0 {
		firewall = []string{s.Jump("kube-proxy firewall rules", kernel.ChainProxyFirewall)}
	}
	if !lean || len(s.healthChecks()) > 0 {
		health = []string{s.Jump("kubernetes health check rules", kernel.ChainNodePort)}
	}
	input := append([]string{s.toFilter()}, firewall...)
	chains := []kernel.Chain{
		s.Chain("filter", "INPUT", append(input, health...)...),
		s.Chain("filter", "FORWARD", append(firewall, s.Jump("kubernetes forwarding rules", kernel.ChainForward))...),
	}
	if !lean || len(s.ipvsOutFilter()) > 0 {
		chains = append(chains, s.Chain(s.outTable(), "OUTPUT",
			s.Jump("kubernetes ipvs access filter", kernel.ChainIPVSOutFilter)))
	}
	return chains
}

// forward is filter KUBE-FORWARD. Both its rules accept: the lean layout asks first for known connections, which
// most packets are of.
func (s *scope) forward() kernel.Chain {
	if !s.Config.Lean {
		return s.Forward()
	}
	return s.Ours("filter", kernel.ChainForward, mode.ForwardKnown, s.ForwardMarked())
}

// healthChecks is filter KUBE-NODE-PORT. It accepts connections to health check node ports.
func (s *scope) healthChecks() []string {
	if s.Config.Lean && !s.has(kernel.HealthCheckNodePort) {
		return nil
	}
	return []string{s.match(kernel.HealthCheckNodePort, "dst") + "-j ACCEPT"}
}

// toNodePorts is the last rule of nat KUBE-SERVICES.
func (s *scope) toNodePorts() []string {
	if s.Config.Lean && len(s.nodePort()) == 0 {
		return nil
	}
	return []string{"-m addrtype --dst-type LOCAL " + s.To(kernel.ChainNodePort)}
}
