package plan

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// chainPhases are when the chains of the two tables are written.
type chainPhases struct{ nat, filter kernel.Phase }

func (p chainPhases) of(c *kernel.Chain) kernel.Phase {
	if c.Table == "nat" {
		return p.nat
	}
	return p.filter
}

// chainPhases returns when chains are written. The chains of mode iptables balance by themselves. When the mode changes to
// one without them, virtual servers must serve before the rules of nat go. The filter comes before: that of mode iptables
// refuses what is not translated. When the mode changes to iptables, it comes last for the same reason.
func (d *differ) chainPhases() chainPhases {
	is, was := hasHashed(d.have.Names, d.want.Chains), hasHashed(d.have.Names, d.have.Chains)
	switch {
	case was && !is && len(d.want.Virtuals) > 0:
		return chainPhases{nat: kernel.ReplaceChains, filter: kernel.WriteChains}
	case is && !was && len(d.have.Virtuals) > 0:
		return chainPhases{nat: kernel.WriteChains, filter: kernel.ReplaceChains}
	}
	return chainPhases{nat: kernel.WriteChains, filter: kernel.WriteChains}
}

// hasHashed reports whether any chain is a service's: see kernel.Names.Hashed. Chains are sorted, and those of ours come
// late in table nat, so that the search begins at the end.
func hasHashed(n kernel.Names, chains []kernel.Chain) bool {
	for i := len(chains) - 1; i >= 0; i-- {
		if chains[i].Table == "nat" && n.OwnsHashed(chains[i].Name) != "" {
			return true
		}
	}
	return false
}

// sharedByServices reports whether a chain has rules of many services, in mode iptables.
func (d *differ) sharedByServices(c *kernel.Chain) bool {
	n := d.have.Names
	for _, name := range []kernel.ChainName{kernel.ChainServices, kernel.ChainNodePorts, kernel.ChainExternalServices, kernel.ChainProxyFirewall, kernel.ChainVIPFilter} {
		if n.IsChain(c.Name, name) {
			return hasHashed(n, d.have.Chains)
		}
	}
	return false
}

// withOthers returns the rules of a shared chain, followed by those that it has for addresses and ports which no wanted
// rule is about: they belong to services that no source has delivered yet.
func (d *differ) withOthers(want *kernel.Chain, have string) string {
	if d.about == nil {
		d.about = map[matched]bool{}
		for i := range d.want.Chains {
			if c := &d.want.Chains[i]; d.sharedByServices(c) {
				for rule := range strings.SplitSeq(c.Rules, "\n") {
					d.about[match(rule)] = true
				}
			}
		}
	}
	rules := want.Rules
	for rule := range strings.SplitSeq(have, "\n") {
		if m := match(rule); (m.addr.IsValid() || m.port != 0) && !d.about[m] {
			rules = strings.TrimPrefix(rules+"\n"+rule, "\n")
		}
	}
	return rules
}

// translates reports whether an op changes where rules lead UDP packets to.
func (d *differ) translates() bool {
	for _, phase := range [...]kernel.Phase{kernel.WriteChains, kernel.ReplaceChains, kernel.RemoveChains} {
		for i := range d.ops[phase] {
			op := &d.ops[phase][i]
			if translatesUDP(d.have.Names, op.Object) || op.Was != nil && translatesUDP(d.have.Names, op.Was) {
				return true
			}
		}
	}
	return false
}

// diffCut removes the flows to endpoints that are cut and have no real server: where rules balance, nothing else ends
// their connections. Those that were removed before are in have.Cut.
func (d *differ) diffCut() {
	cut := d.want.Policy.Cut
	if len(cut) == 0 || kernel.SameSlice(cut, d.have.Cut) {
		return
	}
	done := map[kernel.RealKey]bool{}
	for _, k := range d.have.Cut {
		done[k] = true
	}
	for _, k := range cut {
		if !done[k] && !hasVirtual(&d.have, k.Virtual) && !wants(d.want, k.Virtual) {
			d.clearFlow(k)
		}
	}
}
