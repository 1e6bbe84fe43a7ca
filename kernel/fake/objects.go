package fake

import (
	"fmt"
	"maps"
	"strings"
	"syscall"

	"github.com/svcproxy/svcproxy/kernel"
)

func (k *Kernel) sysctl(s kernel.Sysctl) {
	before, there := k.sysctls[s.Name]
	k.sysctls[s.Name] = s.Value
	k.save(s, before, there)
}

// save remembers what a parameter was, if it was there.
func (k *Kernel) save(s kernel.Sysctl, before string, there bool) {
	saved, ours := k.saved[s.Name]
	switch {
	case ours && saved.Before == s.Value:
		delete(k.saved, s.Name)
	case ours:
		saved.Ours = s.Value
		k.saved[s.Name] = saved
	case there && before != s.Value:
		k.saved[s.Name] = kernel.Saved{Name: s.Name, Before: before, Ours: s.Value}
	}
}

// maxTimeout is what the kernel takes with HZ 250, INT_MAX / HZ seconds.
const maxTimeout = 1 << 31 / 250

func (k *Kernel) setTimeouts(verb kernel.Verb, t kernel.Timeouts) error {
	if verb != kernel.Change {
		return syscall.EOPNOTSUPP
	}
	if max(t.TCP, t.TCPFin, t.UDP) > maxTimeout {
		return syscall.EINVAL
	}
	before := make(map[string]string)
	for _, p := range k.timeouts.Parameters() {
		before[p.Name] = p.Value
	}
	for _, p := range t.Parameters() {
		k.save(p, before[p.Name], true)
	}
	k.timeouts = t.Over(k.timeouts)
	return nil
}

func (k *Kernel) set(verb kernel.Verb, s kernel.Set) error {
	_, exists := k.sets[s.Name]
	switch {
	case verb == kernel.Add && exists:
		return syscall.EEXIST
	case verb == kernel.Add:
		s.Size = 0
		k.sets[s.Name] = &set{Set: s, entries: map[kernel.Entry]bool{}}
	case !exists:
		return syscall.ENOENT
	case k.named(s.Name):
		return syscall.EBUSY
	default:
		delete(k.sets, s.Name)
	}
	return nil
}

// named says whether some rule matches on the set.
func (k *Kernel) named(set string) bool {
	for _, rules := range k.chains {
		if strings.Contains(rules+" ", "--match-set "+set+" ") {
			return true
		}
	}
	return false
}

// entry adds without complaint what is there and removes what is not, as ipset
// does without NLM_F_EXCL.
func (k *Kernel) entry(verb kernel.Verb, e kernel.Entry) error {
	s, exists := k.sets[e.Set]
	switch {
	case !exists:
		return syscall.ENOENT
	case verb == kernel.Remove:
		delete(s.entries, e)
		return nil
	case !fits(s.Set, e):
		return syscall.EINVAL
	case s.Type != kernel.BitmapPort && !s.entries[e] && len(s.entries) >= int(s.MaxElem):
		return ErrFull
	}
	s.entries[e] = true
	return nil
}

// fits says whether an entry has the parts that the set's type needs.
func fits(s kernel.Set, e kernel.Entry) bool {
	if s.Type == kernel.BitmapPort {
		return e == kernel.Entry{Set: e.Set, Port: e.Port}
	}
	if !e.Addr.IsValid() || kernel.FamilyOf(e.Addr) != s.Family {
		return false
	}
	port := e.Proto != 0
	switch s.Type {
	case kernel.HashIP:
		return !port && !e.Second.IsValid()
	case kernel.HashIPPort:
		return port && !e.Second.IsValid()
	case kernel.HashIPPortIP:
		return port && e.Second.IsSingleIP()
	case kernel.HashIPPortNet:
		return port && e.Second.IsValid() && e.Second.Bits() > 0
	}
	return false
}

func (k *Kernel) swap(s kernel.Swap) error {
	from, to := k.sets[s.From], k.sets[s.To]
	if from == nil || to == nil {
		return syscall.ENOENT
	}
	if from.Type != to.Type || from.Family != to.Family {
		return syscall.EINVAL
	}
	k.sets[s.From], k.sets[s.To] = to.renamed(s.From), from.renamed(s.To)
	return nil
}

func (s *set) renamed(name string) *set {
	n := &set{Set: s.Set, entries: make(map[kernel.Entry]bool, len(s.entries))}
	n.Name = name
	for e := range s.entries {
		e.Set = name
		n.entries[e] = true
	}
	return n
}

// restore carries out all ops on chains or none. What a rule names must exist
// when all of them are done. A chain that another one still jumps to is emptied
// and stays, and its op fails alone, as kernel/iptables has it.
func (k *Kernel) restore(ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	before := maps.Clone(k.chains)
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
		k.chains = before
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
		key := keyOf(c)
		_, exists := k.chains[key]
		switch {
		case c.BuiltIn():
			was, _ := o.Was.(kernel.Chain)
			if err := k.rejump(key, was.Rules, c.Rules, o.Verb == kernel.Remove); err != nil {
				return err
			}
		case o.Verb == kernel.Remove && !exists:
			return syscall.ENOENT
		case o.Verb == kernel.Remove:
			k.chains[key] = ""
		default:
			k.chains[key] = c.Rules
		}
	}
	return nil
}

// unlink removes the emptied chains that nothing jumps to.
func (k *Kernel) unlink(ops []kernel.Op, errs []error) {
	for i, o := range ops {
		c := o.Object.(kernel.Chain)
		switch key := keyOf(c); {
		case o.Verb != kernel.Remove || c.BuiltIn():
		case k.jumpedTo(key):
			errs[i] = syscall.EBUSY
		default:
			delete(k.chains, key)
		}
	}
}

func keyOf(c kernel.Chain) chainKey { return chainKey{c.Family, c.Table, c.Name} }

func (k *Kernel) jumpedTo(to chainKey) bool {
	for key, rules := range k.chains {
		if key.family != to.family || key.table != to.table {
			continue
		}
		for _, rule := range lines(rules) {
			if kernel.Target(rule) == to.name {
				return true
			}
		}
	}
	return false
}

// rejump takes the old jumps out of a built-in chain and puts the new in front.
func (k *Kernel) rejump(key chainKey, was, want string, remove bool) error {
	rules := lines(k.chains[key])
	for _, old := range lines(was) {
		i := index(rules, old)
		if i < 0 {
			return fmt.Errorf("rule %q: %w", old, syscall.ENOENT)
		}
		rules = append(rules[:i:i], rules[i+1:]...)
	}
	if !remove {
		rules = append(lines(want), rules...)
	}
	k.chains[key] = strings.Join(rules, "\n")
	return nil
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func index(rules []string, rule string) int {
	for i, r := range rules {
		if r == rule {
			return i
		}
	}
	return -1
}

// check says whether all sets and chains that rules name exist.
func (k *Kernel) check() error {
	for key, rules := range k.chains {
		for _, rule := range lines(rules) {
			f := strings.Fields(rule)
			for i, w := range f {
				if w == "--match-set" && k.sets[f[i+1]] == nil {
					return fmt.Errorf("set %s: %w", f[i+1], syscall.ENOENT)
				}
			}
			target := kernel.Target(rule)
			if strings.Contains(target, "-") && target != "" {
				if _, ok := k.chains[chainKey{key.family, key.table, target}]; !ok {
					return fmt.Errorf("chain %s: %w", target, syscall.ENOENT)
				}
			}
		}
	}
	return nil
}

func (k *Kernel) link(verb kernel.Verb, l kernel.Link) error {
	_, exists := k.links[l.Name]
	switch {
	case verb == kernel.Add && exists:
		return syscall.EEXIST
	case verb == kernel.Add:
		k.links[l.Name] = l.Type
	case verb == kernel.Change:
		return syscall.EOPNOTSUPP
	case !exists:
		return syscall.ENODEV
	default:
		delete(k.links, l.Name)
		maps.DeleteFunc(k.addrs, func(a kernel.Addr, _ bool) bool { return a.Link == l.Name })
	}
	return nil
}

func (k *Kernel) addr(verb kernel.Verb, a kernel.Addr) error {
	_, link := k.links[a.Link]
	switch {
	case !link:
		return syscall.ENODEV
	case verb == kernel.Add && k.addrs[a]:
		return syscall.EEXIST
	case verb == kernel.Add:
		k.addrs[a] = true
	case !k.addrs[a]:
		return syscall.EADDRNOTAVAIL
	default:
		delete(k.addrs, a)
	}
	return nil
}

// toggle adds or removes an element; missing is the error where it is not there.
func toggle[T comparable](set map[T]bool, verb kernel.Verb, v T, missing error) error {
	switch {
	case verb == kernel.Add && set[v]:
		return syscall.EEXIST
	case verb == kernel.Add:
		set[v] = true
	case !set[v]:
		return missing
	default:
		delete(set, v)
	}
	return nil
}

func (k *Kernel) virtual(verb kernel.Verb, v kernel.Virtual) error {
	_, exists := k.virtuals[v.Key]
	switch {
	case verb == kernel.Add && exists:
		return syscall.EEXIST
	case verb != kernel.Add && !exists:
		return syscall.ESRCH
	case verb != kernel.Remove && k.Schedulers != nil && !k.Schedulers[v.Scheduler]:
		return syscall.ENOENT
	case verb == kernel.Remove:
		delete(k.virtuals, v.Key)
		maps.DeleteFunc(k.reals, func(r kernel.RealKey, _ kernel.Real) bool { return r.Virtual == v.Key })
	default:
		k.virtuals[v.Key] = v
	}
	return nil
}

func (k *Kernel) real(verb kernel.Verb, r kernel.Real) error {
	if _, ok := k.virtuals[r.Key.Virtual]; !ok {
		return syscall.ESRCH
	}
	_, exists := k.reals[r.Key]
	switch {
	case verb == kernel.Add && exists:
		return syscall.EEXIST
	case verb != kernel.Add && !exists:
		return syscall.ENOENT
	case verb == kernel.Remove:
		delete(k.reals, r.Key)
	default:
		k.reals[r.Key] = r
	}
	return nil
}
