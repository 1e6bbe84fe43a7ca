package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Rule is a rule that was parsed. If all its conditions hold, its target applies.
type Rule struct {
	Text   string // without its comment
	Target string // "" if it has none: it counts packets
	conds  []cond
	leaves bool // -g: the chain of the target returns to where the rule's chain would

	onSource    bool           // a condition is about the source
	value, mask uint32         // of MARK
	to          netip.AddrPort // of DNAT; zero if it is not one address and port
	verdicts    string         // the map of VMAP
	slots       *slots         // of DNAT, if it chooses one of a map
	untracks    bool           // connection tracking leaves the packet out
	doubt       string         // why it is not known what the target does, "" if it is
}

// cond is a condition.
type cond struct {
	needs   Field // without these it cannot be told
	inside  bool  // it holds for nothing that a client outside sends or gets
	negated bool
	holds   func(*View) Answer
	why     func(*View) string // why it holds or does not
}

func (c *cond) ask(v *View) Answer {
	a := Unknown
	switch {
	case c.inside && v.Outside:
		a = No
	case c.needs&v.missing() == 0:
		a = c.holds(v)
	}
	if c.negated {
		return not(a)
	}
	return a
}

// reason says why ask answers as it does.
func (c *cond) reason(v *View) string {
	for i, name := range fieldNames {
		if c.needs&v.missing()&(1<<i) != 0 {
			return "its " + name + " is not known"
		}
	}
	return c.why(v)
}

// Match reports whether a rule's conditions hold for a packet.
func (r *Rule) Match(v *View) Answer {
	all := Yes
	for i := range r.conds {
		if all = min(all, r.conds[i].ask(v)); all == No {
			break
		}
	}
	return all
}

// Unconditional reports whether the rule is for every packet.
func (r *Rule) Unconditional() bool { return len(r.conds) == 0 }

// no begins the reason why a rule does not apply, and doesNot is how a step has it.
const (
	no      = "no, "
	doesNot = ": " + no
)

// explain is Match with the reason.
func (r *Rule) explain(v *View) (Answer, string) {
	all, text, doubt := Yes, "yes", ""
	for i := range r.conds {
		c := &r.conds[i]
		switch c.ask(v) {
		case No:
			return No, no + c.reason(v)
		case Yes:
			text += ", " + c.reason(v)
		default:
			all, doubt = Unknown, c.reason(v)
		}
	}
	if all == Unknown {
		text = doubt
	}
	return all, text
}

// passing are targets behind which a packet goes on as it was, as far as rules tell.
var passing = []string{"LOG", "NFLOG", "TRACE", "AUDIT", "TCPMSS", "CLASSIFY", "DSCP", "TOS", "CHECKSUM", "SET",
	"CONNSECMARK", "SECMARK", "ACCT", "TEE", "RATEEST", "LED", "FLOWOFFLOAD"}

// ending are targets that end a packet's way through a chain, or change what rules see of it.
var ending = []string{"DROP", "REJECT", "DNAT", "REDIRECT", "TPROXY", "VMAP", "MARK", "CONNMARK", "CT", "NOTRACK"}

// Passes reports whether packets go on behind a target as they were, or leave the chain accepted. known is false for
// the name of a chain, and of a target about which nothing is known.
func Passes(target string) (passes, known bool) {
	passes = slices.Contains(passing, target) ||
		slices.Contains([]string{"", "ACCEPT", "RETURN", "MASQUERADE", "SNAT"}, target)
	return passes, passes || slices.Contains(ending, target)
}

// ParseRule reads a rule as iptables-save prints it, without -A and its chain. What it does not understand is a
// condition, or a target, about which it cannot tell.
func ParseRule(text string) Rule {
	text = kernel.WithoutComment(text)
	words, err := kernel.Words(text)
	p := parser{rule: Rule{Text: text}}
	if err != nil {
		p.rule.doubt = err.Error()
		p.add(puzzle("%v", err))
	}
	for _, w := range words {
		p.words = append(p.words, w.Text)
	}
	for len(p.words) > 0 {
		p.option()
	}
	return p.rule
}

// parser reads the words of a rule.
type parser struct {
	words  []string
	rule   Rule
	module string // of the last -m
}

// next returns the next word, "" at the end.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// values drops what is left of an option's values.
func (p *parser) values() {
	for len(p.words) > 0 && !strings.HasPrefix(p.words[0], "-") && p.words[0] != "!" {
		p.words = p.words[1:]
	}
}

// option reads one option with its values.
func (p *parser) option() {
	word := p.next()
	negated := word == "!"
	if negated {
		word = p.next()
	}
	switch word {
	case "-m", "--match":
		if p.module = p.next(); negated || !modules[p.module] {
			p.add(puzzle("match %q is not understood", p.module))
		}
		return
	case "-j", "-g", "--jump", "--goto":
		p.target(word == "-g" || word == "--goto")
		return
	case "--comment":
		p.next()
		return
	}
	c, err := p.match(word)
	c.negated = negated
	switch {
	case err != nil:
		c = puzzle("%v", err)
		p.values()
	case c.holds == nil:
		return
	case negated && p.module == "ipvs": // it never holds for packets that were not balanced, even negated
		c = puzzle("option \"! %s\" is not understood", word)
	}
	p.add(c)
}

func (p *parser) add(c cond) { p.rule.conds = append(p.rule.conds, c) }

// puzzle is a condition about which nothing can be told.
func puzzle(format string, args ...any) cond {
	text := fmt.Sprintf(format, args...)
	return cond{holds: func(*View) Answer { return Unknown }, why: func(*View) string { return text }}
}

// target reads the rest of a rule behind -j, or behind -g, which leads only to chains. Options of other targets than
// MARK and DNAT change the error, the port or a counter.
func (p *parser) target(leaves bool) {
	r := &p.rule
	r.Target, r.leaves = p.next(), leaves
	if _, known := Passes(r.Target); leaves && known || r.Target == "" {
		r.doubt = fmt.Sprintf("target %q is not understood", r.Target)
	}
	option, value, rest := p.next(), p.next(), p.words
	p.words = nil
	switch r.Target {
	case "VMAP":
		r.verdicts = value
		if len(rest) != 1 || option != "--map" {
			r.doubt = fmt.Sprintf("option %q of target VMAP is not understood", option)
			return
		}
		c, err := p.inSet(value, rest[0])
		if err != nil {
			c = puzzle("%v", err)
		}
		p.add(c)
	case "DNAT":
		if option == "--map" {
			s, err := readSlots(value, rest)
			if r.slots = &s; err != nil {
				r.doubt = err.Error()
			}
			return
		}
		r.to, _ = netip.ParseAddrPort(value)
	case "CT", "NOTRACK":
		r.untracks = r.Target == "NOTRACK" || option == "--notrack"
	case "MARK":
		var err error
		if r.value, r.mask, err = markAndMask(value); err != nil || option != "--set-xmark" {
			r.doubt = fmt.Sprintf("option %q of target MARK is not understood", option)
		}
	}
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
