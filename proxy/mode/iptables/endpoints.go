package iptables

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/sources"
)

// endpoints returns the chain of a policy, which ends in one of its endpoints.
func (p *port) endpoints(k kernel.ChainKind, list []mode.Endpoint) kernel.Chain {
	rules := p.rules[:0]
	if k == p.Internal {
		for _, x := range p.ClusterIPs {
			p.masquerade(&rules, x)
		}
	}
	if p.Config.HairpinRules && !p.Config.EndpointChains {
		for _, e := range list {
			if e.Here {
				rules.add("-s ", single(e.At.Addr()), " ", p.comment(""), p.To(kernel.ChainMarkMasq))
			}
		}
	}
	if p.sticky() {
		for _, e := range list {
			rules.add(p.remembered(e))
		}
	}
	sum := uint64(0)
	for _, e := range list {
		sum += uint64(e.Weight)
	}
	for i, e := range list {
		share := ""
		if i < len(list)-1 {
			share = p.share(uint64(e.Weight), sum)
		}
		sum -= uint64(e.Weight)
		p.drawn(&rules, e, share)
	}
	p.rules = rules
	return p.Chain("nat", p.chain(k), rules.String())
}

// masquerade adds the rule that marks traffic to a cluster IP for masquerading: all of
// it, or what does not come from this node's own workloads. If these cannot be recognised,
// it is the host's own traffic: that has the VIP as its source, and an endpoint's reply to
// it would not leave the endpoint's node. A cluster IP that is not bound needs none then.
func (p *port) masquerade(rules *lines, x *frontend.Front) {
	to, vip := p.dport(x.Key.Port, " cluster IP"), single(x.Key.Addr)
	mark := p.To(kernel.ChainMarkMasq)
	switch {
	case p.Config.MasqueradeAll:
		rules.add("-d ", vip, " ", to, mark)
	case p.workloads != "" && p.workloads[:2] == "-i":
		rules.add("-d ", vip, " ! ", p.workloads, to, mark)
	case p.workloads != "":
		rules.add("! ", p.workloads, "-d ", vip, " ", to, mark)
	case x.Traits.Has(frontend.Bound):
		rules.add("-s ", vip, " -d ", vip, " ", to, mark)
	}
}

// share returns the text of a probability w/sum. A table has few different ones.
func (p *port) share(w, sum uint64) string {
	at := [2]uint64{w, sum}
	text, ok := p.shares[at]
	switch {
	case ok:
		return text
	case p.Config.EndpointChains:
		text = kubeProxys(w, sum)
	default:
		text = probability(w, sum)
	}
	p.shares[at] = text
	return text
}

func (p *port) sticky() bool {
	return p.Service.Affinity == sources.AffinityClientIP && !p.Config.NoAffinity
}

// drawn adds the rule that sends a new client to an endpoint: with the probability share,
// or always if that is "".
func (p *port) drawn(rules *lines, e mode.Endpoint, share string) {
	draw, end := "", ""
	if share != "" {
		draw, end = "-m statistic --mode random --probability ", " "
	}
	if p.Config.EndpointChains {
		rules.add(p.remark(e), draw, share, end, "-j ", p.endpointChain(e))
		return
	}
	remember := ""
	if p.sticky() {
		remember = p.recent("--set", e)
	}
	rules.addTo(e.At, "-p ", p.Proto.String(), " ", p.remark(e), draw, share, end, remember, toEndpoint)
}

// remembered is the rule for a client that an endpoint had not long ago. Matches run from
// left to right, so --update renews only the time of a client that is in the list.
func (p *port) remembered(e mode.Endpoint) string {
	seconds := int64(p.Service.AffinityTimeout / time.Second)
	if p.Config.EndpointChains {
		return p.remark(e) + p.recent(fmt.Sprintf("--rcheck --seconds %d --reap", seconds), e) + "-j " + p.endpointChain(e)
	}
	return "-p " + p.Proto.String() + " " + p.remark(e) +
		p.recent(fmt.Sprintf("--update --seconds %d --reap", seconds), e) + dnat(e)
}

// recent matches with the list of an endpoint's clients, or of their networks. A list keeps the mask that it
// was made with, so lists of networks have the prefix length in their name.
func (p *port) recent(do string, e mode.Endpoint) string {
	name, length := p.endpointChain(e), mode.AffinityPrefix(p.Service, p.Family)
	if int(length) < p.Family.Bits() {
		name += fmt.Sprintf("-%d", length)
	}
	return matchRecent(do, name, p.Family, length)
}

// matchRecent matches with a list of clients, or of their networks of a prefix length.
func matchRecent(do, list string, f kernel.Family, length uint8) string {
	return "-m recent " + do + " --name " + list + " --mask " + mask(f, length) + " --rsource "
}

// mask returns a netmask as iptables-save prints it.
func mask(f kernel.Family, length uint8) string {
	ones := [16]byte(bytes.Repeat([]byte{0xff}, 16))
	a := netip.AddrFrom16(ones)
	if f == kernel.IPv4 {
		a = netip.AddrFrom4([4]byte(ones[:]))
	}
	return netip.PrefixFrom(a, int(length)).Masked().Addr().String()
}

// remark is the comment that names an endpoint. As in kube-proxy, a large table has none.
func (p *port) remark(e mode.Endpoint) string {
	if p.large {
		return ""
	}
	return p.comment(" -> " + e.At.String())
}

const toEndpoint = "-j DNAT --to-destination "

func dnat(e mode.Endpoint) string { return toEndpoint + e.At.String() }

// endpointChain is the name of kube-proxy's chain for an endpoint, and of its list of
// clients.
func (p *port) endpointChain(e mode.Endpoint) string {
	return p.Config.Names.Hashed(kernel.ChainEndpoint, endpointHash(p.name, p.Proto, e.At))
}

// endpointChains returns a chain for each endpoint, as kube-proxy writes them.
func (p *port) endpointChains(list []mode.Endpoint) []kernel.Chain {
	slices.SortFunc(list, func(a, b mode.Endpoint) int { return a.At.Compare(b.At) })
	list = slices.CompactFunc(list, func(a, b mode.Endpoint) bool { return a.At == b.At })
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
			"-s "+single(e.At.Addr())+" "+name+p.To(kernel.ChainMarkMasq),
			fmt.Sprintf("-p %s %s%s-m %s %s", p.Proto, name, remember, p.Proto, dnat(e)))
	}
	return chains
}
