package plan

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

func (d *differ) diffChains() {
	phases, known := chainPhases{}, false
	write := func(c *kernel.Chain) kernel.Phase { // asked only if a chain differs: it looks at the names of all
		if !known {
			phases, known = d.chainPhases(), true
		}
		return phases.of(c)
	}
	kernel.Walk(d.want.Chains, d.have.Chains, same, kernel.Chain.Compare, func(w, h *kernel.Chain) {
		if h != nil && d.reset(h.Family) {
			d.drop(kernel.DropMisusedChains, *h)
			h = nil
			if w == nil {
				return
			}
		}
		switch {
		case h == nil:
			d.add(write(w), *w)
		case w == nil:
			d.remove(kernel.RemoveChains, *h)
		case !d.decided(*h):
			if to := d.held(w, h); !kernel.SameRules(to.Rules, h.Rules) {
				d.change(write(w), *h, to)
			}
		case kernel.SameRules(w.Rules, h.Rules):
		case w.Table == "filter" && d.have.Names.IsChain(w.Name, kernel.ChainVIPFilter):
			d.changeGuards(write(w), *w, *h)
		default:
			d.change(write(w), *h, *w)
		}
	})
	d.resetEqualChains()
}

// held returns what a chain becomes while a source has not delivered its table. Rules of
// services that are not known yet stay, and no endpoint is taken away.
func (d *differ) held(w, h *kernel.Chain) kernel.Chain {
	to, n := *w, d.have.Names
	switch kind := n.OwnsHashed(w.Name); {
	case n.IsChain(w.Name, kernel.ChainIPVSOutFilter):
		// Its rules name single VIPs, and all of them drop packets, so their order does
		// not matter.
		to.Rules = withRules(w.Rules, h.Rules)
	case n.IsChain(w.Name, kernel.ChainIPVSFilter):
		to.Rules = withMarks(w.Rules, h.Rules)
	case d.sharedByServices(w):
		to.Rules = d.withOthers(w, h.Rules)
	case kind == kernel.ChainCluster || kind == kernel.ChainLocal || kind == kernel.ChainExternal:
		if loses(n, w.Rules, h.Rules) {
			to.Rules = h.Rules
		}
	}
	return to
}

// withMarks returns wanted rules, and before the last of them, which refuses packets, those of have that let
// the packets of other marks pass.
func withMarks(want, have string) string {
	rules := strings.Split(want, "\n")
	for rule := range strings.SplitSeq(have, "\n") {
		if kernel.IsMarkRule(rule) && !slices.Contains(rules, rule) {
			rules = slices.Insert(rules, len(rules)-1, rule)
		}
	}
	return strings.Join(rules, "\n")
}

// loses says whether a chain lacks an endpoint that it led to, or a chain of endpoints.
func loses(n kernel.Names, want, have string) bool {
	there := make(map[string]bool)
	for rule := range strings.SplitSeq(want, "\n") {
		there[leadsTo(n, rule)] = true
	}
	for rule := range strings.SplitSeq(have, "\n") {
		if to := leadsTo(n, rule); to != "" && !there[to] {
			return true
		}
	}
	return false
}

// leadsTo returns where a rule sends connections to: an endpoint's address and port, or a
// chain for a service port or an endpoint. It is "" for any other rule.
func leadsTo(n kernel.Names, rule string) string {
	if _, to, ok := strings.Cut(rule, "--to-destination "); ok {
		return to
	}
	if target := kernel.Target(rule); n.OwnsHashed(target) != "" {
		return target
	}
	return ""
}

// changeGuards changes the chain that refuses packets to VIPs. The rule of a VIP that is
// removed stays until its address is gone: without it, packets would reach the host's own
// ports. So the chain may be changed twice.
func (d *differ) changeGuards(write kernel.Phase, w, h kernel.Chain) {
	bound := keep(strings.Split(h.Rules, "\n"), func(rule string) bool {
		a := match(rule).addr
		return a.IsValid() && d.have.IsLocal(a)
	})
	first := w
	first.Rules = withRules(strings.Join(bound, "\n"), w.Rules)
	if !kernel.SameRules(first.Rules, h.Rules) {
		d.change(write, h, first)
	}
	if !kernel.SameRules(first.Rules, w.Rules) {
		d.change(kernel.RemoveChains, first, w)
	}
}

// withRules returns the rules of have, followed by those of want that it lacks.
func withRules(want, have string) string {
	there := make(map[string]bool)
	for rule := range strings.SplitSeq(have, "\n") {
		there[kernel.WithoutComment(rule)] = true
	}
	for rule := range strings.SplitSeq(want, "\n") {
		if rule != "" && !there[kernel.WithoutComment(rule)] {
			have = strings.TrimPrefix(have+"\n"+rule, "\n")
		}
	}
	return have
}

// resetEqualChains also rewrites the chains that are equal, in a family whose sets must
// be freed from all rules.
func (d *differ) resetEqualChains() {
	if !d.reset4 && !d.reset6 {
		return
	}
	for _, w := range d.want.Chains {
		if i, ok := slices.BinarySearchFunc(d.have.Chains, w, kernel.Chain.Compare); ok && d.reset(w.Family) &&
			d.have.Chains[i] == w {
			d.drop(kernel.DropMisusedChains, w)
			d.add(kernel.WriteChains, w)
		}
	}
}

func (d *differ) reset(f kernel.Family) bool {
	return f == kernel.IPv4 && d.reset4 || f == kernel.IPv6 && d.reset6
}

// chainPhases are when the chains of the two tables are written.
type chainPhases struct{ nat, filter kernel.Phase }

func (p chainPhases) of(c *kernel.Chain) kernel.Phase {
	switch c.Table {
	case "nat":
		return p.nat
	case kernel.LimitsTable: // lists are full by then
		return kernel.AddGuards
	}
	return p.filter
}

// chainPhases returns the phases in which chains are written. In modes iptables and nftables, chains of nat balance
// connections, and chains of filter refuse packets that nat did not translate. When the mode changes from
// iptables, filter is written first, then virtual servers are added and VIPs are bound, then nat is written:
// until then it serves VIPs that are not local. When the mode changes to iptables, filter is written last.
func (d *differ) chainPhases() chainPhases {
	is, was := balances(d.have.Names, &d.want), balances(d.have.Names, &d.have.State)
	switch {
	case was && !is && len(d.want.Virtuals) > 0:
		return chainPhases{nat: kernel.ReplaceNAT, filter: kernel.WriteChains}
	case is && !was && len(d.have.Virtuals) > 0:
		return chainPhases{nat: kernel.WriteChains, filter: kernel.ReplaceChains}
	}
	return chainPhases{nat: kernel.WriteChains, filter: kernel.WriteChains}
}

// hasHashed reports whether any chain is that of a service: see kernel.Names.Hashed. Chains are sorted and these come
// late in table nat, so the search begins at the end.
func hasHashed(n kernel.Names, chains []kernel.Chain) bool {
	for i := len(chains) - 1; i >= 0; i-- {
		if chains[i].Table == "nat" && n.OwnsHashed(chains[i].Name) != "" {
			return true
		}
	}
	return false
}

// sharedByServices reports whether a chain has rules of many services, in mode iptables or userspace.
func (d *differ) sharedByServices(c *kernel.Chain) bool {
	n := d.have.Names
	if isPortals(n, c) {
		return true
	}
	for _, name := range []kernel.ChainName{kernel.ChainServices, kernel.ChainNodePorts, kernel.ChainExternalServices,
		kernel.ChainProxyFirewall, kernel.ChainVIPFilter} {
		if n.IsChain(c.Name, name) {
			return hasHashed(n, d.have.Chains)
		}
	}
	return false
}

// isPortals reports whether a chain has the rules of portals, which are mode userspace's.
func isPortals(n kernel.Names, c *kernel.Chain) bool {
	return n.IsChain(c.Name, kernel.ChainPortalsContainer) || n.IsChain(c.Name, kernel.ChainPortalsHost)
}

// withOthers returns the wanted rules of a shared chain, and between them present rules for addresses and ports that
// no wanted rule has. These belong to services that no source has delivered yet. They keep their place among the
// rules that stay, since a chain may have rules that must be its last.
func (d *differ) withOthers(want *kernel.Chain, have string) string {
	if d.about == nil {
		d.about = map[matched]bool{}
		for i := range d.want.Chains {
			if c := &d.want.Chains[i]; d.sharedByServices(c) {
				for rule := range strings.SplitSeq(c.Rules, "\n") {
					d.about[match(rule)] = true
				}
				if isPortals(d.have.Names, c) {
					d.aboutVirtuals()
				}
			}
		}
	}
	left, next, place := strings.FieldsFunc(want.Rules, func(r rune) bool { return r == '\n' }), 0, map[string]int{}
	for i, rule := range left {
		place[kernel.WithoutComment(rule)] = i
	}
	var rules []string
	for rule := range strings.SplitSeq(have, "\n") {
		if at, wanted := place[kernel.WithoutComment(rule)]; wanted && at >= next {
			rules, next = append(rules, left[next:at+1]...), at+1
		} else if m := match(rule); !wanted && (m.addr.IsValid() || m.port != 0) && !d.about[m] {
			rules = append(rules, rule)
		}
	}
	return strings.Join(append(rules, left[next:]...), "\n")
}

// aboutVirtuals adds the wanted virtual servers to what the wanted rules are about. In mode userspace one without a
// portal listens on its own port, and a rule of an earlier portal would lead past it.
func (d *differ) aboutVirtuals() {
	for i := range d.want.Virtuals {
		k := &d.want.Virtuals[i].Key
		d.about[matched{k.Addr, k.Proto, k.Port}] = true
	}
}
