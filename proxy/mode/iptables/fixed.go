package iptables

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

const isNew = "-m conntrack --ctstate NEW "

// fixed returns the chains that do not depend on services: the jumps to ours from the
// built-in ones, masquerading, forwarding, and what guards the VIPs. Comments and order of
// the jumps are kube-proxy's, but for INPUT. There it asks KUBE-NODEPORTS before
// KUBE-EXTERNAL-SERVICES, so a health check node port is open at the VIP of a service that
// has the same port and no endpoints. And its cluster IPs are on no device; ours are local,
// so INPUT asks filter KUBE-SERVICES too.
func (w *writer) fixed() []kernel.Chain {
	portals := w.Jump("kubernetes service portals", kernel.ChainServices)
	firewall := isNew + w.Jump("kubernetes load balancer firewall", kernel.ChainProxyFirewall)
	external := isNew + w.Jump("kubernetes externally-visible service portals", kernel.ChainExternalServices)
	localnet := w.localnet()
	var martians []string
	if localnet != nil {
		martians = []string{w.To(kernel.ChainLocalnetFirewall)}
	}
	return append([]kernel.Chain{
		w.Chain("nat", "PREROUTING", portals),
		w.Chain("nat", "OUTPUT", portals),
		w.Chain("nat", "POSTROUTING", w.Jump("kubernetes postrouting rules", kernel.ChainPostrouting)),
		w.MarkMasq(),
		w.postrouting(),

		w.Chain("filter", "INPUT", append(martians, firewall, isNew+portals, external,
			w.Jump("kubernetes health check service ports", kernel.ChainNodePorts),
			isNew+w.Jump("svcproxy: ports of VIPs that are not served", kernel.ChainVIPFilter))...),
		w.Chain("filter", "FORWARD", firewall,
			w.Jump("kubernetes forwarding rules", kernel.ChainForward),
			isNew+portals, external),
		w.Chain("filter", "OUTPUT", append(martians, firewall, isNew+portals)...),
		w.Forward(w.invalid()...),
		w.Ours("filter", kernel.ChainNodePorts, w.healthChecks()...),
		w.Ours("filter", kernel.ChainVIPFilter, w.guards()...),
	}, localnet...)
}

// invalid drops packets that do not fit their connection. A client would answer an
// endpoint's packet that was not translated back with a reset.
func (w *writer) invalid() []string {
	if w.Config.Conntrack.TCPBeLiberal {
		return nil
	}
	return []string{"-m conntrack --ctstate INVALID -j DROP"}
}

// healthChecks is filter KUBE-NODEPORTS: it accepts connections to health check node ports.
func (w *writer) healthChecks() []string {
	names := make(map[uint16]string)
	for _, c := range w.Frontends.HealthChecks() {
		names[c.Port] = c.Namespace + "/" + c.Name
	}
	var rules []string
	for number := range w.Frontends.HealthCheckPorts(w.Family) {
		p := port{Port: mode.Port{Proto: kernel.TCP}, name: names[number]}
		rules = append(rules, p.dport(number, " health check node port")+"-j ACCEPT")
	}
	return rules
}

// guards is KUBE-VIP-FILTER. A bound VIP is an address of the host, so a program that
// listens on all addresses, such as sshd, would be reachable through it. What is served has
// another destination by now. So a VIP without any other rule refuses, too.
func (w *writer) guards() []string {
	var rules []string
	if w.Config.VIPPing {
		rules = append(rules, w.Ping()+"-j RETURN")
	}
	refuse := " " + w.Reject()
	for _, v := range w.Frontends.VIPs() {
		if kernel.FamilyOf(v.Addr) == w.Family {
			rules = append(rules, "-d "+single(v.Addr)+refuse)
		}
	}
	return rules
}

// localnet is the chain that keeps other hosts from the node's loopback addresses while
// route_localnet is on, nil otherwise. kube-proxy's is kubelet's KUBE-FIREWALL.
func (w *writer) localnet() []kernel.Chain {
	if !w.Config.LocalhostNodePorts || w.Family == kernel.IPv6 {
		return nil
	}
	return []kernel.Chain{w.Ours("filter", kernel.ChainLocalnetFirewall,
		"! -s 127.0.0.0/8 -d 127.0.0.0/8 "+mode.Comment("block incoming localnet connections")+
			"-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP")}
}

// postrouting is KUBE-POSTROUTING. Config.NoAffinity adds a last rule, which no packet reaches: it tells
// plan, and whoever reads the rules, why services have no affinity.
func (w *writer) postrouting() kernel.Chain {
	c := w.Postrouting(w.hairpin()...)
	if w.Config.NoAffinity {
		c.Rules += "\n" + noRecent
	}
	return c
}

var noRecent = mode.Comment("svcproxy: no session affinity without xt_recent") + "-j RETURN"

// hairpin is the rule of KUBE-POSTROUTING that masquerades what an endpoint sends to itself
// by a VIP. kube-proxy has a rule for each endpoint in a chain of its own. This one rule
// says the same for all of them.
func (w *writer) hairpin() []string {
	if w.Config.HairpinRules || w.Config.EndpointChains {
		return nil
	}
	return []string{mode.Comment("svcproxy: an endpoint that reaches itself") +
		`-m addrtype ! --src-type LOCAL -m conntrack --ctstate DNAT ` + matchBPF(w.Family) + "-j MASQUERADE"}
}

// nodePorts are the last rules of nat KUBE-SERVICES. There is one for each address that
// serves node ports, as kube-proxy has it where its configuration selects some: VIPs are
// addresses of the node too, and must not serve them.
func (w *writer) nodePorts() []string {
	const why = "kubernetes service nodeports; NOTE: this must be the last rule in this chain"
	to := mode.Comment(why) + w.To(kernel.ChainNodePorts)
	var rules []string
	for _, a := range w.Frontends.NodePortAddrs() {
		if kernel.FamilyOf(a) == w.Family {
			rules = append(rules, "-d "+single(a)+" "+to)
		}
	}
	if w.Config.LocalhostNodePorts && w.Family == kernel.IPv4 {
		rules = append(rules, "-d 127.0.0.0/8 "+to)
	}
	return rules
}
