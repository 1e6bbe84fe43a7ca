package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// fewLeft is how many virtual servers left by kube-proxy have a line of their own.
const fewLeft = 20

// leftWarnings names the virtual servers that kube-proxy left and no service wants. They
// go on serving: a node port, or a VIP that is local in another way, still answers.
func leftWarnings(left []kernel.Virtual) []string {
	var lines []string
	for i, v := range left {
		if i == fewLeft-1 && len(left) > fewLeft {
			return append(lines, fmt.Sprintf("%d more virtual servers are left by kube-proxy: svcproxy cleanup --leftovers "+
				"removes them with all of ours", len(left)-i))
		}
		lines = append(lines, fmt.Sprintf("virtual server %s was left by kube-proxy, no service wants it, and it goes on "+
			"serving: ipvsadm -D %s removes it", v.Key, v.Key))
	}
	return lines
}

// LeftRules returns the chains with which kube-proxy's iptables mode serves, or served last, as they are
// without those of ours: sorted. A jump with a condition is ours if the chain has the same jump without:
// kube-proxy adds its own to the jumps of the lean layout. Nothing is left unless a family has chains of
// endpoints. Every sync of svcproxy removes these, so kube-proxy wrote to the family after svcproxy.
func LeftRules(o *kernel.Observed) []kernel.Chain { return leftRules(o.Names, o.Chains) }

// LeftOthers returns these chains of the back ends of iptables that are not written.
func LeftOthers(o *kernel.Observed) (left []kernel.OtherChain) {
	for _, backend := range []string{kernel.BackendLegacy, kernel.BackendNFT} {
		var chains []kernel.Chain
		stuck := map[kernel.Chain]bool{} // by a chain without its rules
		for _, c := range o.Others {
			if c.Backend == backend {
				chains = append(chains, c.Chain)
				c.Rules = ""
				stuck[c.Chain] = c.Stuck
			}
		}
		for _, c := range leftRules(o.Names, chains) {
			other := kernel.OtherChain{Chain: c, Backend: backend}
			c.Rules = ""
			other.Stuck = stuck[c]
			left = append(left, other)
		}
	}
	kernel.SortFunc(left, kernel.OtherChain.Compare)
	return left
}

func leftRules(n kernel.Names, chains []kernel.Chain) []kernel.Chain {
	var left []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		if !slices.ContainsFunc(chains, func(c kernel.Chain) bool {
			return c.Family == f && c.Table == "nat" && n.OwnsHashed(c.Name) == kernel.ChainEndpoint
		}) {
			continue
		}
		for _, c := range chains {
			if c.Family != f || neverKubeProxys(n, c.Name) {
				continue
			}
			rules := strings.Split(c.Rules, "\n")
			always := map[string]bool{} // rules that jump without a condition
			for _, rule := range rules {
				always[kernel.WithoutComment(rule)] = c.BuiltIn()
			}
			c.Rules = strings.Join(keep(rules, func(rule string) bool {
				target, bare := kernel.Target(rule), kernel.WithoutComment(rule)
				return !neverKubeProxys(n, target) && !strings.Contains(rule, "--match-set ") &&
					(bare == "-j "+target || !always["-j "+target])
			}), "\n")
			if c.Rules != "" || !c.BuiltIn() {
				left = append(left, c)
			}
		}
	}
	return left
}

// neverKubeProxys reports whether kube-proxy's iptables mode has no chain of this name.
func neverKubeProxys(n kernel.Names, name string) bool {
	return slices.ContainsFunc([]kernel.ChainName{
		kernel.ChainVIPFilter, kernel.ChainLocalnetFirewall,
		kernel.ChainLoadBalancer, kernel.ChainNodePort, kernel.ChainSourceRangesFirewall, kernel.ChainIPVSFilter,
		kernel.ChainIPVSOutFilter,
	}, func(c kernel.ChainName) bool { return n.IsChain(name, c) })
}
