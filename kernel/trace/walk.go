package trace

import (
	"fmt"
	"slices"
	"strings"

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
	rules := t.chain(f.family(), table, chain).Rules
	if depth > maxDepth {
		return "", fmt.Errorf("%s %s: jumps in a circle", table, chain)
	}
	if rules == "" {
		return "", nil
	}
	for text := range strings.SplitSeq(rules, "\n") {
		text = kernel.WithoutComment(text)
		r, err := t.parse(f.family(), table, text)
		if err != nil {
			return "", fmt.Errorf("%s %s: rule %q: %w", table, chain, text, err)
		}
		hit, why := r.applies(t, f)
		t.step("%s %s: %s: %s", table, chain, text, why)
		if !hit {
			continue
		}
		switch r.target {
		case "ACCEPT", "DROP", "REJECT":
			return r.target, nil
		case "RETURN":
			return "", nil
		case "MARK":
			f.mark = f.mark&^r.mask ^ r.value
		case "MASQUERADE":
			f.masquerade = ByMark
			if r.onSource {
				f.masquerade = Hairpin
			}
			return r.target, nil
		case "DNAT":
			f.Dst, f.translated = r.to, kernel.VirtualAt(f.Dst, f.Proto)
			return r.target, nil
		case "":
		default:
			if target, err := t.walk(table, r.target, f, depth+1); target != "" || err != nil || r.leaves {
				return target, err
			}
		}
	}
	return "", nil
}

// chain returns a chain. One that is not in the state has no rules, like a built-in
// chain without rules of ours.
func (t *tracer) chain(f kernel.Family, table, name string) kernel.Chain {
	i := slices.IndexFunc(t.state.Chains, func(c kernel.Chain) bool {
		return c.Name == name && c.Table == table && c.Family == f
	})
	if i < 0 {
		return kernel.Chain{}
	}
	return t.state.Chains[i]
}
