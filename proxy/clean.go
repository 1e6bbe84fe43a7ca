package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/sources"
)

// cleanRounds is how often Clean tries. A set cannot be removed while another program's
// rule uses it, and such a rule may have been added between reading and removing.
const cleanRounds = 3

// Cleaning are the options of Clean.
type Cleaning struct {
	Dry       bool // remove nothing
	Leftovers bool // also remove virtual servers and rules that kube-proxy left
	Kept      []Kept
}

// Kept are virtual servers that another program has by now: they stay, with their real servers.
type Kept struct {
	By   string // "keepalived (process 7) has them in FILE"
	Keys []kernel.VirtualKey
}

// virtuals returns those of a reading's virtual and real servers that stay, and says why.
func (c *Cleaning) virtuals(have *kernel.Observed, want *kernel.State) (why []string) {
	by := map[kernel.VirtualKey]int{} // the first of c.Kept that has it
	for i, k := range slices.Backward(c.Kept) {
		for _, key := range k.Keys {
			by[key] = i
		}
	}
	counts := make([]int, len(c.Kept))
	for _, v := range have.Virtuals {
		if i, keeps := by[v.Key]; keeps {
			want.Virtuals = append(want.Virtuals, v)
			counts[i]++
		}
	}
	want.Reals = have.Reals.Where(func(r *kernel.Real) bool {
		_, keeps := by[r.Key.Virtual]
		return keeps
	})
	for i, n := range counts {
		if n > 0 {
			why = append(why, fmt.Sprintf("%s %s", stays(n), c.Kept[i].By))
		}
	}
	want.Sort()
	return why
}

// unguard returns the ops that come first: the rules, which go later, refuse new connections to a guarded VIP once the
// entries of its services are gone. In mode nftables kube-proxy's rules of iptables, which stay, may come behind ours.
func (c *Cleaning) unguard(have *kernel.Observed, want *kernel.State) (ops []kernel.Op) {
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		if len(want.Others) == 0 || !have.HasSet(have.Names.Set(f, kernel.Frontends)) {
			continue
		}
		for guard := range have.Entries.Of(have.Names.Set(f, kernel.IPVSIPs)).All() {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: guard})
		}
	}
	for _, k := range c.Kept {
		for _, key := range k.Keys {
			a := key.Addr
			guard := kernel.Entry{Set: have.Names.Set(kernel.FamilyOf(a), kernel.IPVSIPs), Addr: a}
			op := kernel.Op{Verb: kernel.Remove, Object: guard}
			if have.Entries.Has(guard) && !slices.Contains(ops, op) {
				ops = append(ops, op)
			}
		}
	}
	return ops
}

// staying says which rules of kube-proxy stay.
func staying(want *kernel.State) (lines []string) {
	const why = "%s of rules stay%s: kube-proxy in mode iptables wrote them after svcproxy and may serve with them; " +
		"cleanup --leftovers removes them"
	if n := len(want.Chains); n > 0 {
		lines = append(lines, fmt.Sprintf(why, sources.Count(n, "chain"), ""))
	}
	if n := len(want.Others); n > 0 {
		lines = append(lines, fmt.Sprintf(why, sources.Count(n, "chain"), " in the tables of "+want.Others[0].Tool()))
	}
	return lines
}

func stays(n int) string {
	if n == 1 {
		return "1 virtual server stays:"
	}
	return fmt.Sprintf("%d virtual servers stay:", n)
}

// Clean removes our objects from a kernel until a reading shows none. It passes the
// first plan to planned before that, and ends there if c.Dry is set.
func Clean(ctx context.Context, k Kernel, c Cleaning, planned func(kernel.Plan) error) error {
	var failed error
	var memory kernel.Memory
	for round := 0; ; round++ {
		have, err := k.Read(ctx)
		if err != nil {
			return err
		}
		want := kernel.State{Policy: kernel.Policy{TakeLeft: c.Leftovers}}
		if !c.Leftovers {
			want.Chains, want.Others = plan.LeftRules(&have), plan.LeftOthers(&have)
		}
		stay := c.virtuals(&have, &want)
		p, _ := plan.Diff(want, have, memory, kernel.Now{})
		p.Ops = append(c.unguard(&have, &want), p.Ops...)
		p.Warnings = append(p.Warnings, stay...)
		p.Warnings = append(p.Warnings, staying(&want)...)
		// What the plan cannot remove is still ours.
		if memory.Owned = plan.Owned(&have, memory.Owned); have.Record.Left != nil {
			memory.Left = have.Record.Left
		}
		if round == 0 {
			if err := planned(p); err != nil {
				return err
			}
		}
		stuck := slices.IndexFunc(have.Others, func(c kernel.OtherChain) bool { return c.Stuck })
		switch {
		case (p.Empty() || c.Dry) && stuck >= 0:
			return fmt.Errorf("chains of svcproxy are left where only %s can remove them, the first is %s: install it",
				have.Others[stuck].Tool(), have.Others[stuck].Name)
		case (p.Empty() || c.Dry) && len(have.Hidden) > 0:
			return fmt.Errorf("rules of svcproxy may be left where the tool cannot show them: %s",
				strings.Join(have.Hidden, ", "))
		case (p.Empty() || c.Dry) && have.Unseen != "":
			return fmt.Errorf("rules of svcproxy may be left in the other back end of iptables: %s", have.Unseen)
		case p.Empty() || c.Dry:
			return nil
		case round < cleanRounds:
			failed = k.Apply(ctx, p)
		case failed != nil:
			return failed
		default:
			return fmt.Errorf("%d objects come back as often as they are removed, the first is %s", len(p.Ops), p.Ops[0].Object)
		}
	}
}
