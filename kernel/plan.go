package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Plan is what plan.Diff found to do.
type Plan struct {
	Ops []Op
	// Draining counts the real servers that wait until their connections end. Drains
	// names them. Wake is the earliest of their deadlines, zero if there is none.
	Draining int
	Drains   []Drain
	Wake     time.Time
	// Served lists the VIPs that are to be made local and have an owned virtual server
	// already.
	Served []netip.Addr
	// Conflicts lists the wanted virtual servers that another program has made.
	Conflicts []Conflict
	// Probes lists the claims to ask other hosts about before their VIPs are made
	// local. Taken lists those that another host answers for; they are left out.
	Probes []Claim
	Taken  []Taken
	// Held lists sets of an owned name and a foreign type that rules of other programs
	// use.
	Held []Set
	// Left lists virtual servers that kube-proxy left and no service wants, sorted.
	Left []Virtual
	// Others lists our chains in the other back end of iptables that stay: no program can remove them, or not every
	// source has delivered its table.
	Others []OtherChain
	// Daemons lists the daemons of connection sync of other programs that run in place of wanted ones.
	Daemons []SyncDaemon
	// RoundRobin: some virtual servers keep rr where wrr is wanted, which does the same while their weights are equal.
	RoundRobin bool
	// Warnings tell the operator what is left as it is, a line each.
	Warnings []string
}

// Empty says whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Ops) == 0 }

// Conflict is a wanted virtual server that exists and is not owned.
type Conflict struct {
	Want, Have Virtual
}

// String says how to hand the virtual server over: svcproxy makes its own as soon as the other one is gone.
func (c Conflict) String() string {
	return fmt.Sprintf("%s is wanted, but another program made %s: to hand it over, stop that program and run ipvsadm "+
		"-D %s", c.Want, c.Have, c.Have.Key)
}

// String is what `svcproxy plan` prints: an op a line with a chain's rules below it,
// conflicts, warnings and a summary.
func (p Plan) String() string {
	return p.Text(func(b *strings.Builder, o Op) {
		b.WriteString(o.String())
		b.WriteByte('\n')
		if c, ok := o.Object.(Chain); ok && o.Verb != Remove {
			was, _ := o.Was.(Chain)
			appendRuleDiff(b, was.Rules, c.Rules)
		}
	})
}

// Text is String with other text for the ops.
func (p Plan) Text(op func(*strings.Builder, Op)) string {
	var b strings.Builder
	for _, o := range p.Ops {
		op(&b, o)
	}
	for _, c := range p.Conflicts {
		fmt.Fprintf(&b, "! %s\n", c)
	}
	for _, t := range p.Taken {
		fmt.Fprintf(&b, "! %s\n", t)
	}
	for _, w := range p.warnings() {
		fmt.Fprintf(&b, "! %s\n", w)
	}
	for _, c := range p.Probes {
		fmt.Fprintf(&b, "? %s\n", c)
	}
	b.WriteString(p.Summary())
	b.WriteByte('\n')
	return b.String()
}

// Past is Summary after it was carried out.
func (p Plan) Past() string {
	if p.Empty() {
		return "nothing to do"
	}
	add, change, remove := p.Counts()
	return fmt.Sprintf("%d added, %d changed, %d removed", add, change, remove)
}

// warnings are Warnings and those about Others.
func (p Plan) warnings() []string { return append(slices.Clone(p.Warnings), OtherLines(p.Others)...) }

// Summary counts the ops by verb in one line.
func (p Plan) Summary() string {
	if p.Empty() && p.Draining == 0 && len(p.Conflicts)+len(p.Taken)+len(p.Probes) == 0 {
		return "nothing to do"
	}
	add, change, remove := p.Counts()
	s := fmt.Sprintf("%d to add, %d to change, %d to remove", add, change, remove)
	if p.Draining > 0 {
		s += fmt.Sprintf(", %d draining", p.Draining)
	}
	if n := len(p.Conflicts) + len(p.Taken); n > 0 {
		s += fmt.Sprintf(", %d in conflict", n)
	}
	if n := len(p.Probes); n > 0 {
		s += fmt.Sprintf(", %d to be probed", n)
	}
	return s
}

// Counts gives the number of ops by verb. Flows are not among them: they may have no entry that could be removed.
func (p Plan) Counts() (add, change, remove int) {
	for _, o := range p.Ops {
		switch {
		case o.Verb == Add:
			add++
		case o.Verb == Change:
			change++
		case o.Object.Kind() != KindFlow:
			remove++
		}
	}
	return add, change, remove
}

// appendRuleDiff shows which rules are added and removed, but not their order.
func appendRuleDiff(b *strings.Builder, was, want string) {
	before, after := ruleSet(was), ruleSet(want)
	for rule := range strings.SplitSeq(was, "\n") {
		if rule != "" && !after[WithoutComment(rule)] {
			fmt.Fprintf(b, "    - %s\n", rule)
		}
	}
	for rule := range strings.SplitSeq(want, "\n") {
		if rule != "" && !before[WithoutComment(rule)] {
			fmt.Fprintf(b, "    + %s\n", rule)
		}
	}
}

func ruleSet(rules string) map[string]bool {
	set := make(map[string]bool)
	for rule := range strings.SplitSeq(rules, "\n") {
		set[WithoutComment(rule)] = true
	}
	return set
}
