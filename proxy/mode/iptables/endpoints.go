package iptables

import (
	"fmt"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// endpoints returns the chain of a policy, which ends in one of its endpoints.
func (p *port) endpoints(k kernel.ChainKind, list []endpoint) kernel.Chain {
	var rules []string
	if k == p.internal {
		for _, x := range p.clusterIPs {
			rules = append(rules, p.masquerade(x)...)
		}
	}
	if p.Config.HairpinRules && !p.Config.EndpointChains {
		for _, e := range list {
			if e.here {
				rules = append(rules, "-s "+single(e.at.Addr())+" "+p.comment("")+p.To(kernel.ChainMarkMasq))
			}
		}
	}
	if p.sticky() {
		for _, e := range list {
			rules = append(rules, p.remembered(e))
		}
	}
	sum := uint64(0)
	for _, e := range list {
		sum += uint64(e.weight)
	}
	for i, e := range list {
		draw := ""
		if i < len(list)-1 {
			draw = "-m statistic --mode random --probability " + p.share(uint64(e.weight), sum) + " "
		}
		sum -= uint64(e.weight)
		rules = append(rules, p.chosen(e, draw))
	}
	return p.Chain("nat", p.chain(k), rules...)
}

// masquerade returns the rule that marks traffic to a cluster IP for masquerading: all of
// it, or what does not come from this node's own workloads. If these cannot be recognised,
// it is the host's own traffic: that has the VIP as its source, and an endpoint's reply to
// it would not leave the endpoint's node.
func (p *port) masquerade(x *frontend.Front) []string {
	to, vip := p.dport(x.Key.Addr.Port(), " cluster IP")+p.To(kernel.ChainMarkMasq), single(x.Key.Addr.Addr())
	switch {
	case p.Config.MasqueradeAll:
		return []string{"-d " + vip + " " + to}
	case p.workloads != "" && p.workloads[:2] == "-i":
		return []string{"-d " + vip + " ! " + p.workloads + to}
	case p.workloads != "":
		return []string{"! " + p.workloads + "-d " + vip + " " + to}
	case x.Traits.Has(frontend.Bound):
		return []string{"-s " + vip + " -d " + vip + " " + to}
	}
	return nil
}

func (p *port) share(w, sum uint64) string {
	if p.Config.EndpointChains {
		return kubeProxys(w, sum)
	}
	return probability(w, sum)
}

func (p *port) sticky() bool { return p.service.Affinity == sources.AffinityClientIP }

// chosen is the rule for a new client, if draw does not leave it to the next rule.
func (p *port) chosen(e endpoint, draw string) string {
	if p.Config.EndpointChains {
		return p.remark(e) + draw + "-j " + p.endpointChain(e)
	}
	remember := ""
	if p.sticky() {
		remember = p.recent("--set", e)
	}
	return "-p " + p.proto.String() + " " + p.remark(e) + draw + remember + dnat(e)
}

// remembered is the rule for a client that an endpoint had not long ago. Matches run from
// left to right, so --update renews only the time of a client that is in the list.
func (p *port) remembered(e endpoint) string {
	seconds := int64(p.service.AffinityTimeout / time.Second)
	if p.Config.EndpointChains {
		return p.remark(e) + p.recent(fmt.Sprintf("--rcheck --seconds %d --reap", seconds), e) + "-j " + p.endpointChain(e)
	}
	return "-p " + p.proto.String() + " " + p.remark(e) + p.recent(fmt.Sprintf("--update --seconds %d --reap", seconds), e) + dnat(e)
}

// recent matches with the list of an endpoint's clients.
func (p *port) recent(do string, e endpoint) string {
	return "-m recent " + do + " --name " + p.endpointChain(e) + " --mask " +
		p.ByFamily("255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") + " --rsource "
}

// remark is the comment that names an endpoint. As in kube-proxy, a large table has none.
func (p *port) remark(e endpoint) string {
	if p.large {
		return ""
	}
	return p.comment(" -> " + e.at.String())
}

func dnat(e endpoint) string { return "-j DNAT --to-destination " + e.at.String() }

// endpointChain is the name of kube-proxy's chain for an endpoint, and of its list of
// clients.
func (p *port) endpointChain(e endpoint) string {
	return p.Config.Names.Hashed(kernel.ChainEndpoint, endpointHash(p.name, p.proto, e.at))
}

// endpointChains returns a chain for each endpoint, as kube-proxy writes them.
func (p *port) endpointChains(list []endpoint) []kernel.Chain {
	slices.SortFunc(list, func(a, b endpoint) int { return a.at.Compare(b.at) })
	list = slices.CompactFunc(list, func(a, b endpoint) bool { return a.at == b.at })
	name := ""
	if !p.large {
		name = mode.Comment(p.name)
	}
	chains := make([]kernel.Chain, len(list))
	for i, e := range list {
		remember := ""
		if p.sticky() {
			remember = p.recent("--set", e)
		}
		chains[i] = p.Chain("nat", p.endpointChain(e),
			"-s "+single(e.at.Addr())+" "+name+p.To(kernel.ChainMarkMasq),
			fmt.Sprintf("-p %s %s%s-m %s %s", p.proto, name, remember, p.proto, dnat(e)))
	}
	return chains
}
