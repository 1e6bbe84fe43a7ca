package packet

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// passed is the verdict of a hook that lets a packet go on to the next.
const passed Fate = 0xff

// maxDepth is deeper than our chains. It ends jumps in a circle.
const maxDepth = 16

// hook takes a packet through a built-in chain. nat sees only packets that open a
// connection, or a related one.
func (t *tracer) hook(table, chain string, f *flight) (Fate, error) {
	if table == "nat" && (f.State == "INVALID" || f.State == "UNTRACKED") {
		t.step("nat %s: not asked, it is %s", chain, f.State)
		return passed, nil
	}
	if table == "nat" && f.Established {
		t.step("nat %s: not asked, its connection is known", chain)
		return passed, t.known(chain, f)
	}
	target, err := t.walk(table, chain, f, 0)
	if err != nil {
		return Dropped, err
	}
	switch target {
	case "DROP":
		return Dropped, nil
	case "REJECT":
		return Rejected, nil
	}
	return passed, nil
}

// known gives a later packet the destination of the first one of its connection, which
// the rules had sent there.
func (t *tracer) known(chain string, f *flight) error {
	if chain == "POSTROUTING" {
		return nil
	}
	first, steps := *f, t.steps
	first.Established = false
	_, err := t.walk("nat", chain, &first, 0)
	if t.steps = steps; err != nil || first.translated.Proto == 0 {
		return err
	}
	t.step("conntrack: its first packet went to %s", first.Dst)
	f.Dst, f.translated = first.Dst, first.translated
	return nil
}

// walk takes a packet through a chain and returns the target that ended its way through
// the hook, "" if the chain returns.
func (t *tracer) walk(table, chain string, f *flight, depth int) (string, error) {
	if depth > maxDepth {
		return "", fmt.Errorf("%s %s: jumps in a circle", table, chain)
	}
	rules, _ := t.rules(f.family(), table, chain)
	for i := range rules {
		r := &rules[i]
		hit, why := r.explain(&f.View)
		if hit == Yes && r.doubt != "" {
			hit, why = Unknown, r.doubt
		}
		if hit == Unknown {
			return "", fmt.Errorf("%s %s: rule %q: %s", table, chain, r.Text, why)
		}
		t.step("%s %s: %s: %s", table, chain, r.Text, why)
		if hit == No {
			continue
		}
		switch r.Target {
		case "ACCEPT", "DROP", "REJECT":
			return r.Target, nil
		case "RETURN":
			return "", nil
		case "MARK":
			f.Mark = f.Mark&^r.mask ^ r.value
		case "MASQUERADE":
			f.masquerade = ByMark
			if r.onSource {
				f.masquerade = Hairpin
			}
			return r.Target, nil
		case "VMAP":
			chain, _ := t.goesTo(r.verdicts, &f.View)
			if _, found := t.rules(f.family(), table, chain); !found {
				return "", fmt.Errorf("%s %s: rule %q: there is no chain %q", table, chain, r.Text, chain)
			}
			return t.walk(table, chain, f, depth+1)
		case "DNAT":
			to := r.to
			if r.slots != nil {
				var found bool
				if to, found = t.slot(r.slots, &f.View); !found {
					t.step("map %s has no such slot", r.slots.in)
					continue
				}
				t.step("map %s: %s", r.slots.in, to)
			}
			if !to.IsValid() {
				return "", fmt.Errorf("%s %s: rule %q: it does not say one address and port", table, chain, r.Text)
			}
			f.Dst, f.translated = to, kernel.VirtualAt(f.Dst, f.Proto)
			return r.Target, nil
		case "", "FLOWOFFLOAD":
		default:
			if _, found := t.rules(f.family(), table, r.Target); !found {
				return "", fmt.Errorf("%s %s: rule %q: target %q is not understood, and no chain of table %s", table, chain,
					r.Text, r.Target, table)
			}
			if target, err := t.walk(table, r.Target, f, depth+1); target != "" || err != nil || r.leaves {
				return target, err
			}
		}
	}
	return "", nil
}
