package iptables

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// The chains in which many services have rules.
const (
	natServices = iota
	natNodePorts
	filterServices
	filterExternal
	filterFirewall
	shared // their number
)

// part is what one service adds to a family: rules of the shared chains, and chains of its
// own.
type part struct {
	rules  [shared]string // each ends with a newline, unless it is empty
	chains []kernel.Chain
}

// draft is a part while it is made. A range of ports adds thousands of rules to a chain.
type draft struct {
	part
	text [shared][]byte
}

func (d *draft) add(chain int, rule string) {
	d.text[chain] = append(append(d.text[chain], rule...), '\n')
}

// finished returns the part.
func (d *draft) finished() part {
	for i, text := range d.text {
		d.rules[i] = string(text)
	}
	return d.part
}

// part returns what the service with an index adds. fronts are its fronts.
func (w *writer) part(index int, fronts []int32) part {
	var out draft
	if !slices.ContainsFunc(fronts, func(at int32) bool { return w.Frontends.Fronts[at].Key.Family() == w.Family }) {
		return out.part // for the family that most services do not have
	}
	for number, of := range w.Ports(index, fronts) {
		p := w.newPort(of, number)
		p.entrances(&out)
		p.ownChains(&out)
	}
	return out.finished()
}

// entrances adds the rules of the shared chains.
func (p *port) entrances(out *draft) {
	for _, x := range p.ClusterIPs {
		if p.Internal != "" {
			out.add(natServices, p.to(x, " cluster IP")+"-j "+p.chain(p.Internal))
		} else {
			why, target := p.refusal(x.Traits.Has(frontend.InternalLocal))
			out.add(filterServices, p.to(x, why)+target)
		}
	}
	why, target := p.refusal(p.KeepsSource())
	for _, x := range p.VIPs {
		if p.Any() {
			kind, chain := " external IP", kernel.ChainExternal
			if x.Traits.Has(frontend.LoadBalancer) {
				kind = " loadbalancer IP"
			}
			if x.Traits.Has(frontend.Restricted) {
				chain = kernel.ChainFirewall
				out.add(filterFirewall, p.to(x, " traffic not accepted by "+p.chain(chain))+"-j DROP")
			}
			out.add(natServices, p.to(x, kind)+"-j "+p.chain(chain))
		}
		if p.External == "" {
			out.add(filterExternal, p.to(x, why)+target)
		}
	}
	if len(p.NodePorts) == 0 {
		return
	}
	number := p.NodePorts[0].Key.Port
	if p.Any() {
		out.add(natNodePorts, p.dport(number, "")+"-j "+p.chain(kernel.ChainExternal))
	}
	if p.External == "" {
		for _, x := range p.NodePorts {
			out.add(filterExternal, p.to(x, why)+target)
		}
	}
}

// refusal returns why packets are refused that no rule of nat has sent to an endpoint, and
// the target for it: those for a node without endpoints under policy Local are dropped,
// since another node may answer.
func (p *port) refusal(local bool) (why, target string) {
	if local && p.Any() {
		return " has no local endpoints", "-j DROP"
	}
	return " has no endpoints", p.Reject()
}

// ownChains adds the chains of the port.
func (p *port) ownChains(out *draft) {
	outside := len(p.VIPs)+len(p.NodePorts) > 0
	if outside && p.Any() {
		out.chains = append(out.chains, p.Chain("nat", p.chain(kernel.ChainExternal), p.fromOutside()...))
		if rules := p.sourceRanges(); rules != nil {
			out.chains = append(out.chains, p.Chain("nat", p.chain(kernel.ChainFirewall), rules...))
		}
	}
	var targets []mode.Endpoint
	if len(p.Cluster) > 0 && (outside || p.Internal == kernel.ChainCluster) {
		out.chains = append(out.chains, p.endpoints(kernel.ChainCluster, p.Cluster))
		targets = append(targets, p.Cluster...)
	}
	if p.Internal == kernel.ChainLocal || p.External == kernel.ChainLocal {
		out.chains = append(out.chains, p.endpoints(kernel.ChainLocal, p.Local))
		targets = append(targets, p.Local...)
	}
	if p.Config.EndpointChains {
		out.chains = append(out.chains, p.endpointChains(targets)...)
	}
}

// fromOutside are the rules of KUBE-EXT: the way from external IPs, load balancer IPs and
// node ports. Under policy Local, the node and its workloads still reach all endpoints, as
// if they had gone by an external load balancer.
func (p *port) fromOutside() []string {
	var rules []string
	masq := p.To(kernel.ChainMarkMasq)
	if !p.KeepsSource() {
		rules = append(rules, mode.Comment("masquerade traffic for "+p.name+" external destinations")+masq)
	} else {
		const fromNode = "-m addrtype --src-type LOCAL "
		all := "-j " + p.chain(kernel.ChainCluster)
		if len(p.Cluster) > 0 && p.workloads != "" {
			rules = append(rules, p.workloads+mode.Comment("pod traffic for "+p.name+" external destinations")+all)
		}
		rules = append(rules, mode.Comment("masquerade LOCAL traffic for "+p.name+" external destinations")+fromNode+masq)
		if len(p.Cluster) > 0 {
			rules = append(rules, mode.Comment("route LOCAL traffic for "+p.name+" external destinations")+fromNode+all)
		}
	}
	if p.External != "" {
		rules = append(rules, "-j "+p.chain(p.External))
	}
	return rules
}

// sourceRanges are the rules of KUBE-FW, nil if no load balancer IP has source ranges. The
// node's own packets to a bound VIP have it as their source, so a rule says whether they
// may.
func (p *port) sourceRanges() []string {
	var ranges, self, notSelf []string
	restricted := false
	accept := p.comment(" loadbalancer IP") + "-j " + p.chain(kernel.ChainExternal)
	for _, r := range p.Service.SourceRanges {
		if kernel.FamilyOf(r.Addr()) == p.Family {
			ranges = append(ranges, "-s "+r.Masked().String()+" "+accept)
		}
	}
	for _, x := range p.VIPs {
		vip := x.Key.Addr
		switch {
		case !x.Traits.Has(frontend.Restricted):
			continue
		case x.Traits.Has(frontend.NodeAllowed):
			self = append(self, "-s "+single(vip)+" "+accept)
		case slices.ContainsFunc(p.Service.SourceRanges, func(r netip.Prefix) bool { return r.Contains(vip) }):
			notSelf = append(notSelf, "-s "+single(vip)+" "+p.comment(" loadbalancer IP")+"-j RETURN")
		}
		restricted = true
	}
	if !restricted {
		return nil
	}
	other := mode.Comment("other traffic to " + p.name + " will be dropped by " +
		p.Config.Names.Chain(kernel.ChainProxyFirewall))
	return slices.Concat(notSelf, ranges, self, []string{strings.TrimSuffix(other, " ")})
}
