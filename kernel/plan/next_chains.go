package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// chainID is a chain of table nat.
type chainID struct {
	family kernel.Family
	name   string
}

// rulesOf returns the rules of a chain of any table.
func rulesOf(chains []kernel.Chain, like *kernel.Chain) string {
	for i := range chains {
		if c := &chains[i]; c.Family == like.Family && c.Table == like.Table && c.Name == like.Name {
			return c.Rules
		}
	}
	return ""
}

// isServices reports whether a chain leads to the services of mode iptables.
func isServices(n kernel.Names, c *kernel.Chain) bool {
	return c.Table == "nat" && n.IsChain(c.Name, kernel.ChainServices)
}

// isOfService reports whether a chain is of one service.
func isOfService(n kernel.Names, c *kernel.Chain) bool {
	return c.Table == "nat" && n.OwnsHashed(c.Name) != ""
}

// served counts the rules of services.
func served(read *kernel.Observed) (rules int) {
	for i := range read.Chains {
		if c := &read.Chains[i]; isServices(read.Names, c) || isOfService(read.Names, c) {
			rules += 1 + strings.Count(c.Rules, "\n")
		}
	}
	return rules
}

// unservedByRules is unserved in mode iptables: for VIPs to which no rule leads. Objects are rules.
func unservedByRules(want *kernel.State, read *kernel.Observed, tried map[netip.Addr]bool) (units []unit, all int) {
	if !slices.ContainsFunc(want.Chains, func(c kernel.Chain) bool {
		return isServices(read.Names, &c) && rulesOf(read.Chains, &c) != c.Rules
	}) {
		return nil, 0
	}
	served, at := map[netip.Addr]bool{}, map[netip.Addr]int{}
	for i := range read.Chains {
		if c := &read.Chains[i]; isServices(read.Names, c) {
			for rule := range strings.SplitSeq(c.Rules, "\n") {
				served[match(rule).addr] = true
			}
		}
	}
	rules := map[chainID]int{}
	for _, c := range want.Chains {
		rules[chainID{c.Family, c.Name}] = 1 + strings.Count(c.Rules, "\n")
	}
	for i := range want.Chains {
		c := &want.Chains[i]
		if !isServices(read.Names, c) {
			continue
		}
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			vip := match(rule).addr
			if !vip.IsValid() || served[vip] {
				continue
			}
			if _, known := at[vip]; !known {
				at[vip] = len(units)
				units = append(units, unit{vip: vip})
			}
			n := 1 + rules[chainID{c.Family, kernel.Target(rule)}]
			units[at[vip]].objects += n
			if !tried[vip] {
				all += n
			}
		}
	}
	return units, all
}

// withoutRulesOf leaves the rules of VIPs out of wanted chains, and the chains that only these lead to. Rules of node
// ports go with their service.
func withoutRulesOf(chains []kernel.Chain, read *kernel.Observed, later map[netip.Addr]bool) []kernel.Chain {
	left, there := map[chainID]bool{}, map[chainID]bool{}
	for i := range chains {
		if c := &chains[i]; isServices(read.Names, c) {
			for rule := range strings.SplitSeq(c.Rules, "\n") {
				if to := kernel.Target(rule); later[match(rule).addr] && read.Names.OwnsHashed(to) != "" {
					left[chainID{c.Family, to}] = true
				}
			}
		}
	}
	for _, c := range read.Chains {
		if c.Table == "nat" {
			there[chainID{c.Family, c.Name}] = true
		}
	}
	l := leaving{later, left, map[chainID]*kernel.Chain{}, map[chainID]bool{}}
	for i := range chains {
		if c := &chains[i]; isOfService(read.Names, c) {
			l.wanted[chainID{c.Family, c.Name}] = c
		}
	}
	some := slices.Clone(chains)
	for i := range some {
		c := &some[i]
		id := chainID{c.Family, c.Name}
		switch {
		case !isOfService(read.Names, c):
			if c.Rules != "" {
				c.Rules = l.rules(c, rulesOf(read.Chains, c))
			}
			if c.Table == "nat" {
				l.lead(c)
			}
		case there[id]:
			l.leads[id] = true
			l.lead(c)
		}
	}
	return slices.DeleteFunc(some, func(c kernel.Chain) bool {
		return isOfService(read.Names, &c) && !l.leads[chainID{c.Family, c.Name}]
	})
}

// leaving is a call of withoutRulesOf.
type leaving struct {
	later  map[netip.Addr]bool
	left   map[chainID]bool          // chains that rules of VIPs that are left lead to
	wanted map[chainID]*kernel.Chain // of services
	leads  map[chainID]bool          // chains that rules lead to which are not left
}

// rules returns the rules of a chain of many services that are not left. Those that are there stay: rules of node
// ports, which have no VIP, and such as refuse clients of a VIP that had no endpoints.
func (l *leaving) rules(c *kernel.Chain, there string) string {
	var stays map[string]bool // nil before it is needed
	return strings.Join(keep(strings.Split(c.Rules, "\n"), func(rule string) bool {
		if a := match(rule).addr; a.IsValid() {
			if !l.later[a] {
				return true
			}
		} else if c.Table != "nat" || !l.isLeft(chainID{c.Family, kernel.Target(rule)}) {
			return true
		}
		if stays == nil {
			stays = map[string]bool{}
			for old := range strings.SplitSeq(there, "\n") {
				stays[kernel.WithoutComment(old)] = true
			}
		}
		return stays[kernel.WithoutComment(rule)]
	}), "\n")
}

// isLeft reports whether a chain, or one that it leads to, is of a service whose VIPs are left.
func (l *leaving) isLeft(id chainID) bool {
	if l.left[id] {
		return true
	}
	c := l.wanted[id]
	if c == nil {
		return false
	}
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		if l.left[chainID{id.family, kernel.Target(rule)}] {
			return true
		}
	}
	return false
}

// lead notes the chains that a chain leads to.
func (l *leaving) lead(c *kernel.Chain) {
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		id := chainID{c.Family, kernel.Target(rule)}
		if to := l.wanted[id]; to != nil && !l.leads[id] {
			l.leads[id] = true
			l.lead(to)
		}
	}
}
