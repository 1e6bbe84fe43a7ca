package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// rule is one rule: if all matches hold, its target applies.
type rule struct {
	matches  []match
	onSource bool // one match looks the source up in a set
	target   string
	leaves   bool // the chain of the target returns to where the rule's chain would

	value, mask uint32         // of MARK
	to          netip.AddrPort // of DNAT
}

// match reports whether it holds for a packet, and why or why not.
type match func(*tracer, *flight) (bool, string)

// no begins the reason why a rule does not apply, and doesNot is how a step has it.
const (
	no      = "no, "
	doesNot = ": " + no
)

// applies reports whether all matches hold, with the reason.
func (r rule) applies(t *tracer, f *flight) (bool, string) {
	why := "yes"
	for _, m := range r.matches {
		ok, because := m(t, f)
		if !ok {
			return false, no + because
		}
		why += ", " + because
	}
	return true, why
}

// not inverts m and keeps its reason.
func not(m match) match {
	return func(t *tracer, f *flight) (bool, string) {
		ok, why := m(t, f)
		return !ok, why
	}
}

// parser reads the words of a rule as iptables-save prints it.
type parser struct {
	*tracer
	family kernel.Family
	table  string
	words  []string
	rule   rule
	module string // of the last -m
}

// parse reads a rule without its comment.
func (t *tracer) parse(f kernel.Family, table, text string) (rule, error) {
	p := parser{tracer: t, family: f, table: table, words: strings.Fields(text)}
	for len(p.words) > 0 {
		if err := p.option(); err != nil {
			return rule{}, err
		}
	}
	return p.rule, nil
}

// next returns the next word, "" at the end. No option has "" as its value.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// option reads one option with its values.
func (p *parser) option() error {
	word := p.next()
	negated := word == "!"
	if negated {
		word = p.next()
	}
	switch word {
	case "-m":
		p.module = p.next()
		return p.known(negated)
	case "-j", "-g":
		p.rule.leaves = word == "-g"
		return p.target(negated)
	}
	m, err := p.match(word)
	if err != nil {
		return err
	}
	if negated {
		if m == nil || p.module == "ipvs" { // ipvs never holds for packets that were not balanced, even negated
			return fmt.Errorf("option \"! %s\" is not understood", word)
		}
		m = not(m)
	}
	if m != nil {
		p.rule.matches = append(p.rule.matches, m)
	}
	return nil
}

// modules are the matches that option knows.
var modules = []string{"set", "addrtype", "mark", "conntrack", "physdev", "icmp", "icmp6", "ipvs", "tcp", "udp", "sctp",
	"statistic", "recent", "bpf"}

func (p *parser) known(negated bool) error {
	if negated || !slices.Contains(modules, p.module) {
		return fmt.Errorf("match %q is not understood", p.module)
	}
	return nil
}

// targets are the options of each target, apart from jumps to chains. Those of
// MASQUERADE and REJECT change the port or the error, not the packet's path.
var targets = map[string][]string{
	"ACCEPT": nil, "DROP": nil, "RETURN": nil,
	"REJECT":     {"--reject-with"},
	"MARK":       {"--set-xmark"},
	"MASQUERADE": {"--random-fully"},
	"DNAT":       {"--to-destination"},
}

// target reads the rest of a rule behind -j, or behind -g, which leads only to chains.
func (p *parser) target(negated bool) error {
	p.rule.target = p.next()
	_, known := targets[p.rule.target]
	known = known || p.chain(p.family, p.table, p.rule.target).Name != ""
	needsValue := slices.Contains([]string{"MARK", "DNAT", "CT"}, p.rule.target)
	if negated || !known || needsValue && len(p.words) == 0 || p.rule.leaves &&
		p.chain(p.family, p.table, p.rule.target).Name == "" {
		return fmt.Errorf("target %q is not understood, and no chain of table %s", p.rule.target, p.table)
	}
	for len(p.words) > 0 {
		option := p.next()
		if !slices.Contains(targets[p.rule.target], option) {
			return fmt.Errorf("option %q of target %s is not understood", option, p.rule.target)
		}
		switch option {
		case "--reject-with":
			p.next()
		case "--to-destination":
			var err error
			if p.rule.to, err = netip.ParseAddrPort(p.next()); err != nil {
				return err
			}
		case "--set-xmark":
			var err error
			if p.rule.value, p.rule.mask, err = markAndMask(p.next()); err != nil {
				return err
			}
		}
	}
	return nil
}

// markAndMask reads 0x4000/0x4000; without a mask all bits count.
func markAndMask(s string) (value, mask uint32, err error) {
	v, m, masked := strings.Cut(s, "/")
	if !masked {
		m = "0xffffffff"
	}
	v64, err := strconv.ParseUint(v, 0, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("mark %q: %w", s, err)
	}
	m64, err := strconv.ParseUint(m, 0, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("mark %q: %w", s, err)
	}
	return uint32(v64), uint32(m64), nil
}
