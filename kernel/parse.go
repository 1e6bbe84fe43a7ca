package kernel

import (
	"fmt"
	"strings"
)

// ParseObserved reads the canonical text of a State or an Observed, and what sysctl,
// ipset save, iptables-save and ipvsadm-save print. It skips comments and blank lines.
// An error names the line.
func ParseObserved(text string) (Observed, error) {
	o, _, _, err := ParseAll(text)
	return o, err
}

// ParseAll reads what ParseObserved reads, and the lines of a Memory and a Now.
func ParseAll(text string) (o Observed, m Memory, now Now, err error) {
	p := parser{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return o, m, now, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if p.table != "" {
		return o, m, now, fmt.Errorf("line %d: table %s has no COMMIT", n, p.table)
	}
	o, m, now = p.o, p.memory, p.now
	o.Chains = p.chains.Chains()
	o.dropForeign()
	conns := make(map[RealKey]Conns, len(o.Conns))
	for i, c := range o.Conns {
		conns[p.reals[i].Key] = c
	}
	o.Conns, o.Reals = nil, RealsOf(p.reals)
	o.Sort()
	SortFunc(now.Probed, Claim.Compare)
	SortFunc(now.Taken, func(a, b Taken) int { return a.Compare(b.Claim) })
	if len(conns) > 0 {
		for _, r := range o.Reals.All() {
			o.Conns = append(o.Conns, conns[r.Key])
		}
	}
	return o, m, now, nil
}

type parser struct {
	o      Observed
	memory Memory
	now    Now
	family Family // of the iptables section
	table  string // that the line is in, "" outside of tables
	chains ChainBuilder
	other  *OtherChain  // back end of the section that the line is in; nil in one of the written back end
	others ChainBuilder // of that section
	reals  []Real
}

func (p *parser) line(s string) error {
	switch {
	case strings.HasPrefix(s, directive):
		return p.directive(strings.Fields(strings.TrimPrefix(s, directive)), s)
	case s == "" || s[0] == '#':
		p.generated(s)
		return nil
	case s[0] == '*':
		p.table = s[1:]
		return nil
	case s == "COMMIT":
		p.table = ""
		p.endOther()
		return nil
	case p.table != "":
		return p.rule(s)
	}
	f := strings.Fields(s)
	if p.foreign(f) {
		return nil
	}
	if row := byWord[f[0]]; row != nil {
		return row.read(p, f)
	}
	return p.sysctl(s)
}
