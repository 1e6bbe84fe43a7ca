package plan

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// KeepOwned leaves in a reading what is of our names, and all of IPVS: of what
// the tools print, the part that Diff may see. The rest it would take for ours
// and unwanted.
func KeepOwned(o *kernel.Observed) {
	n := o.Names
	o.Sets = keep(o.Sets, func(s kernel.Set) bool { return n.OwnsSet(s.Name) })
	o.Entries = keep(o.Entries, func(e kernel.Entry) bool { return n.OwnsSet(e.Set) })
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

// jumps are, of a built-in chain's rules, those to chains of ours.
func jumps(n kernel.Names, c kernel.Chain) string {
	var ours []string
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		if n.OwnsChain(c.Table, kernel.Target(rule)) {
			ours = append(ours, rule)
		}
	}
	return strings.Join(ours, "\n")
}
