package fake

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/svcproxy/svcproxy/kernel"
)

// restore carries out all ops on chains or none. What a rule names must exist when
// all of them are done. A chain that another one still jumps to is emptied and stays,
// and only its op fails, as in kernel/iptables.
func (k *Kernel) restore(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	before := slices.Clone(k.state.Chains)
	err := k.rewrite(ops)
	if err == nil {
		k.unlink(ops, errs)
		err = k.check()
	}
	for i := range errs {
		switch {
		case err != nil:
			errs[i] = err
		case errs[i] == nil:
			k.writes++
			if k.After != nil {
				k.After(ops[i])
			}
		}
	}
	if err != nil {
		k.state.Chains = before
	}
	return errs
}

// rewrite writes chains; one that is to be removed is only emptied.
func (k *Kernel) rewrite(ops []kernel.Op) error {
	for _, o := range ops {
		if k.Fail != nil {
			if err := k.Fail(o); err != nil {
				return err
			}
		}
		c := o.Object.(kernel.Chain)
		have, exists := k.find(c).(kernel.Chain)
		switch {
		case c.BuiltIn():
			was, _ := o.Was.(kernel.Chain)
			var err error
			if c.Rules, err = rejump(have.Rules, was.Rules, c.Rules, o.Verb == kernel.Remove); err != nil {
				return err
			}
		case o.Verb == kernel.Remove && !exists:
			return syscall.ENOENT
		case o.Verb == kernel.Remove:
			c.Rules = ""
		}
		k.put(c)
	}
	return nil
}

// unlink removes the emptied chains that nothing jumps to.
func (k *Kernel) unlink(ops []kernel.Op, errs []error) {
	for i, o := range ops {
		c := o.Object.(kernel.Chain)
		switch {
		case o.Verb != kernel.Remove || c.BuiltIn():
		case k.jumpedTo(c):
			errs[i] = syscall.EBUSY
		default:
			k.delete(c)
		}
	}
}

// jumpedTo reports whether a rule or a map leads to a chain.
func (k *Kernel) jumpedTo(to kernel.Chain) bool {
	for e := range k.state.Entries.All() {
		if e.Goto == to.Name && k.find(kernel.Set{Name: e.Set}).(kernel.Set).Family == to.Family {
			return true
		}
	}
	return slices.ContainsFunc(k.state.Chains, func(c kernel.Chain) bool {
		return c.Family == to.Family && c.Table == to.Table &&
			slices.ContainsFunc(lines(c.Rules), func(rule string) bool { return kernel.Target(rule) == to.Name })
	})
}

// rejump returns a built-in chain's rules without the old jumps, and with the wanted
// ones in front unless they are to be removed.
func rejump(have, was, want string, remove bool) (string, error) {
	rules := lines(have)
	for _, old := range lines(was) {
		i := slices.Index(rules, old)
		if i < 0 {
			return "", fmt.Errorf("rule %q: %w", old, syscall.ENOENT)
		}
		rules = append(rules[:i:i], rules[i+1:]...)
	}
	if !remove {
		rules = append(lines(want), rules...)
	}
	return strings.Join(rules, "\n"), nil
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// check reports whether all sets and chains exist that rules name.
func (k *Kernel) check() error {
	for i := range k.state.Chains {
		if err := k.checkChain(&k.state.Chains[i]); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) checkChain(c *kernel.Chain) error {
	for _, rule := range lines(c.Rules) {
		f := strings.Fields(rule)
		for i, w := range f {
			if (w == "--match-set" || w == "--map" || w == "--meter") && !k.state.HasSet(f[i+1]) {
				return fmt.Errorf("set %s: %w", f[i+1], syscall.ENOENT)
			}
		}
		// Targets that the kernel has by itself, as ACCEPT, have no hyphen.
		target := kernel.Target(rule)
		if strings.Contains(target, "-") && k.find(kernel.Chain{Family: c.Family, Table: c.Table, Name: target}) == nil {
			return fmt.Errorf("chain %s: %w", target, syscall.ENOENT)
		}
	}
	return nil
}
