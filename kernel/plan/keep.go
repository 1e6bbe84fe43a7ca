package plan

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// KeepOwned reduces a reading of everything that the tools print to what Diff may see:
// owned objects and all of IPVS. Diff would take the rest for owned and unwanted.
func KeepOwned(o *kernel.Observed) {
	n := o.Names
	o.Sets = keep(o.Sets, func(s kernel.Set) bool { return n.OwnsSet(s.Name) })
	o.Entries = o.Entries.Where(func(e kernel.Entry) bool { return n.OwnsSet(e.Set) })
	o.Chains = keep(o.Chains, func(c kernel.Chain) bool { return c.BuiltIn() || n.OwnsChain(c.Table, c.Name) })
	for i := range o.Chains {
		if o.Chains[i].BuiltIn() {
			o.Chains[i].Rules = jumps(n, o.Chains[i])
		}
	}
	o.Chains = slices.DeleteFunc(o.Chains, func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
	o.Links = keep(o.Links, func(l kernel.Link) bool { return l.Name == n.Device })
	o.Addrs = keep(o.Addrs, func(a kernel.Addr) bool { return a.Link == n.Device })
}

// jumps returns those rules of a built-in chain that jump to owned chains.
func jumps(n kernel.Names, c kernel.Chain) string {
	var ours []string
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		if c.Table == kernel.LimitsTable || n.OwnsChain(c.Table, kernel.Target(rule)) {
			ours = append(ours, rule)
		}
	}
	return strings.Join(ours, "\n")
}
