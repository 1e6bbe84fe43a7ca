package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// A set of an owned name and a foreign type cannot be swapped for ours, nor destroyed
// while a rule uses it. Our own rules are removed and added again for that, another
// program's are not. Such a set is held: it stays, and no rule of ours names it.

// holds says whether a set of a foreign type cannot be replaced, because rules of other
// programs use it, and notes it.
func (d *differ) holds(h kernel.Set) bool {
	ours := uint32(0)
	count := func(c *kernel.Chain) {
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			if namesSet(rule, h.Name) {
				ours++
			}
		}
	}
	for i := range d.have.Chains {
		count(&d.have.Chains[i])
	}
	for i := range d.have.Others {
		count(&d.have.Others[i].Chain)
	}
	if h.References <= ours {
		return false
	}
	d.plan.Held = append(d.plan.Held, h)
	return true
}

// namesSet says whether a rule looks into a set or map.
func namesSet(rule, set string) bool {
	return strings.Contains(rule+" ", "--match-set "+set+" ") || strings.Contains(rule+" ", "--map "+set+" ")
}

// withoutHeld drops the wanted rules on held sets: they would match another program's
// entries, or be refused.
func (d *differ) withoutHeld() {
	if d.plan.Held == nil {
		return
	}
	d.want.Chains = slices.Clone(d.want.Chains)
	for i := range d.want.Chains {
		c := &d.want.Chains[i]
		rules := keep(strings.Split(c.Rules, "\n"), func(rule string) bool {
			return !slices.ContainsFunc(d.plan.Held, func(h kernel.Set) bool { return namesSet(rule, h.Name) })
		})
		c.Rules = strings.Join(rules, "\n")
	}
}

// hiddenWarning is about a table that iptables cannot show, "ip6tables nat".
func hiddenWarning(table string) string {
	tool, name, _ := strings.Cut(table, " ")
	family := "ip"
	if strings.HasPrefix(tool, "ip6") {
		family = "ip6"
	}
	return fmt.Sprintf("%s cannot show table %s since a rule in it was added by nft: svcproxy's rules there are neither "+
		"checked nor cleaned up; "+
		"move that rule to a table of its own (nft -a list table %s %s)", tool, name, family, name)
}

// heldWarning says what is wrong with a held set and what to do.
func heldWarning(n kernel.Names, h kernel.Set) string {
	want := kernel.SetType("another type")
	if f, spec, ok := n.SetSpec(h.Name); ok {
		want = spec.Type
		if f != h.Family {
			want += kernel.SetType(" of " + f.String())
		}
	}
	return fmt.Sprintf("ipset %s is a %s where ours is a %s, and rules of another program use it: what belongs in it is "+
		"not reached until they let go (iptables-save | grep %s)",
		h.Name, h.Type, want, h.Name)
}
