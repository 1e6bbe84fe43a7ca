package kernel

import (
	"encoding/json"
	"fmt"
	"strings"
)

// String is what `svcproxy plan` shows a person: an op a line, a chain's rules
// below it, conflicts, and a summary.
func (p Plan) String() string {
	var b strings.Builder
	for _, o := range p.Ops {
		b.WriteString(o.String())
		b.WriteByte('\n')
		if c, ok := o.Object.(Chain); ok && o.Verb != Remove {
			was, _ := o.Was.(Chain)
			appendRuleDiff(&b, was.Rules, c.Rules)
		}
	}
	for _, c := range p.Conflicts {
		fmt.Fprintf(&b, "! %s\n", c)
	}
	for _, t := range p.Taken {
		fmt.Fprintf(&b, "! %s\n", t)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "! %s\n", w)
	}
	for _, c := range p.Probes {
		fmt.Fprintf(&b, "? %s\n", c)
	}
	b.WriteString(p.Summary())
	b.WriteByte('\n')
	return b.String()
}

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

// Counts gives the number of ops by verb.
func (p Plan) Counts() (add, change, remove int) {
	for _, o := range p.Ops {
		switch o.Verb {
		case Add:
			add++
		case Change:
			change++
		case Remove:
			remove++
		}
	}
	return add, change, remove
}

// appendRuleDiff shows which rules come and go. They are few, and their order
// is told by the chain itself.
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

// The JSON form of a plan, `svcproxy plan -o json`. Fields are only ever added.
type planJSON struct {
	Ops       []opJSON       `json:"ops"`
	Add       int            `json:"add"`
	Change    int            `json:"change"`
	Remove    int            `json:"remove"`
	Draining  int            `json:"draining"`
	Conflicts []conflictJSON `json:"conflicts"`
	Warnings  []string       `json:"warnings"`
	Taken     []string       `json:"taken"`
	Probes    []string       `json:"probes"`
}

type opJSON struct {
	Verb   string   `json:"verb"` // add, change, remove
	Kind   string   `json:"kind"`
	Object string   `json:"object"` // canonical text
	Was    string   `json:"was,omitempty"`
	Rules  []string `json:"rules,omitempty"` // of a chain
}

type conflictJSON struct {
	Want string `json:"want"`
	Have string `json:"have"`
}

var verbNames = [...]string{Add: "add", Change: "change", Remove: "remove"}

// MarshalJSON gives the documented form.
func (p Plan) MarshalJSON() ([]byte, error) {
	j := planJSON{Ops: make([]opJSON, 0, len(p.Ops)), Draining: p.Draining, Conflicts: make([]conflictJSON, 0, len(p.Conflicts)), Warnings: append([]string{}, p.Warnings...), Taken: []string{}, Probes: []string{}}
	j.Add, j.Change, j.Remove = p.Counts()
	for _, o := range p.Ops {
		op := opJSON{Verb: verbNames[o.Verb], Kind: o.Object.Kind().String(), Object: o.Object.String()}
		if o.Verb == Change && o.Was != nil {
			op.Was = o.Was.String()
		}
		if c, ok := o.Object.(Chain); ok && c.Rules != "" {
			op.Rules = strings.Split(c.Rules, "\n")
		}
		j.Ops = append(j.Ops, op)
	}
	for _, c := range p.Conflicts {
		j.Conflicts = append(j.Conflicts, conflictJSON{Want: c.Want.String(), Have: c.Have.String()})
	}
	for _, t := range p.Taken {
		j.Taken = append(j.Taken, t.String())
	}
	for _, c := range p.Probes {
		j.Probes = append(j.Probes, c.String())
	}
	return json.Marshal(j)
}
