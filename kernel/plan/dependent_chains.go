package plan

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// failedChains are what follows from ops on chains that failed. Keys are chains without their rules.
type failedChains struct {
	unwritten map[kernel.Chain]error // could not be added or changed
	none      map[kernel.Chain]error // could not be added
	inUse     map[kernel.Chain]error // a rule or map that could not be changed leads there
	inSets    map[string]error       // set that such a rule names
}

func (f *failedChains) failed(o kernel.Op, err error) {
	c := o.Object.(kernel.Chain)
	if o.Verb != kernel.Remove {
		mark(&f.unwritten, named(c), err)
	}
	if o.Verb == kernel.Add && !c.BuiltIn() {
		mark(&f.none, named(c), err)
	}
	if was, ok := o.Was.(kernel.Chain); ok {
		for rule := range strings.SplitSeq(was.Rules, "\n") {
			f.stays(target(c, rule), err)
			for _, set := range setsOf(rule) {
				mark(&f.inSets, set, err)
			}
		}
	}
}

// stays notes that a chain cannot be removed.
func (f *failedChains) stays(c kernel.Chain, err error) { mark(&f.inUse, c, err) }

// lacks returns why a chain cannot be written: a set or chain that its rules name could not be created.
func (d *dependents) lacks(c kernel.Chain) error {
	if len(d.noSet)+len(d.chains.none) == 0 {
		return nil
	}
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		if err := d.chains.none[target(c, rule)]; err != nil {
			return err
		}
		for _, set := range setsOf(rule) {
			if err := d.noSet[set]; err != nil {
				return err
			}
		}
	}
	return nil
}

// unreached returns why a map must not lead to a chain: it could not be written, or one that all of its family need.
func (d *dependents) unreached(e kernel.Entry) error {
	to, balancers := chainOf(d.Names, e), d.Names.Balancer("")
	for c, err := range d.chains.unwritten {
		if c == to || c.Family == to.Family && !strings.HasPrefix(c.Name, balancers) {
			return err
		}
	}
	return nil
}

// guards reports whether VIPs have no guard if an op on a chain fails. A chain that exists goes on guarding when
// changing it fails, unless it has a rule for each VIP. In table nat some rule must lead to the guard.
func (d *dependents) guards(o kernel.Op) bool {
	c := o.Object.(kernel.Chain)
	guard := d.Names.IsChain(c.Name, kernel.ChainVIPFilter)
	switch {
	case o.Verb == kernel.Remove:
		return false
	case c.Table == "filter":
		return o.Verb == kernel.Add || guard
	case c.Table != "nat":
		return false
	}
	was, _ := o.Was.(kernel.Chain)
	return guard || d.leadsToGuard(c) && !d.leadsToGuard(was)
}

// leadsToGuard reports whether a chain of table nat leads to the chain that guards VIPs, or to the one that does.
func (d *dependents) leadsToGuard(c kernel.Chain) bool {
	for rule := range strings.SplitSeq(c.Rules, "\n") {
		to := kernel.Target(rule)
		if d.Names.IsChain(to, kernel.ChainVIPFilter) || c.BuiltIn() && d.Names.IsChain(to, kernel.ChainServices) {
			return true
		}
	}
	return false
}

// named returns a chain without its rules.
func named(c kernel.Chain) kernel.Chain {
	c.Rules = ""
	return c
}

func familyOf(c kernel.Chain) kernel.Family { return c.Family }

// target returns the chain that a rule of another one leads to, or none of that name.
func target(from kernel.Chain, rule string) kernel.Chain {
	return kernel.Chain{Family: from.Family, Table: from.Table, Name: kernel.Target(rule)}
}

// chainOf returns the chain that an entry of a map leads to.
func chainOf(n kernel.Names, e kernel.Entry) kernel.Chain {
	family, _, _ := n.SetSpec(e.Set)
	return kernel.Chain{Family: family, Table: n.GotoTable(e.Set), Name: e.Goto}
}

// setsOf returns the sets and maps that a rule names.
func setsOf(rule string) (sets []string) {
	words := strings.Fields(rule)
	for i, w := range words[:max(0, len(words)-1)] {
		if w == "--match-set" || w == "--map" || w == "--meter" {
			sets = append(sets, words[i+1])
		}
	}
	return sets
}
