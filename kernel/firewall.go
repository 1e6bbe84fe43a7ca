package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// BaseChain is a chain at a hook through which our packets pass, with the rules of other programs. Package packet
// says what it does with a packet. What one base chain drops no other can accept.
type BaseChain struct {
	Family Family // 0: both
	// Hook is prerouting, input, forward, output, postrouting, ingress or egress; with bridge- in front, a hook of
	// packets that come in or leave by a bridge port.
	Hook     string
	Links    string // of ingress and egress: the devices, with commas; "" for all
	Priority int32  // the order at the hook
	Policy   string // what it does with packets that no rule decides about: accept or drop
	Name     string // for people; its last words are the table and the chain: "iptables filter INPUT"
	// Rules are as iptables-save prints them, one a line. In front of the rules of a chain that they jump to is a
	// line with its name: ":NAME". The base chain's are the first.
	Rules string
}

// Sees reports whether packets of a family pass the chain.
func (b BaseChain) Sees(f Family) bool { return b.Family == 0 || b.Family == f }

// Table is the table of a chain of iptables, or that of nftables.
func (b BaseChain) Table() string {
	words := strings.Fields(b.Name)
	if len(words) < 2 {
		return ""
	}
	return words[len(words)-2]
}

var familyWords = map[Family]string{0: "any", IPv4: "ipv4", IPv6: "ipv6"}

func (b BaseChain) append(line func(string, ...any)) {
	where := b.Hook
	if b.Links != "" {
		where += ":" + b.Links
	}
	line("firewall %s %s %d %s %s", familyWords[b.Family], where, b.Priority, b.Policy, b.Name)
	for rule := range strings.SplitSeq(b.Rules, "\n") {
		if rule != "" {
			line("rule %s", rule)
		}
	}
}

// baseChain reads: firewall FAMILY HOOK[:LINKS] PRIORITY POLICY NAME.
func (p *parser) baseChain(f []string) error {
	if len(f) < 6 {
		return errors.New("want: firewall FAMILY HOOK[:LINKS] PRIORITY POLICY NAME")
	}
	priority, err := strconv.ParseInt(f[3], 10, 32)
	if err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	b := BaseChain{Priority: int32(priority), Policy: f[4], Name: strings.Join(f[5:], " ")}
	b.Hook, b.Links, _ = strings.Cut(f[2], ":")
	for family, word := range familyWords {
		if word == f[1] {
			b.Family = family
		}
	}
	p.o.Firewall = append(p.o.Firewall, b)
	return nil
}

// foreignRule reads a rule of the base chain before it.
func (p *parser) foreignRule(f []string) error {
	if len(p.o.Firewall) == 0 || len(f) < 2 {
		return errors.New("rule: want a base chain before it")
	}
	b := &p.o.Firewall[len(p.o.Firewall)-1]
	b.Rules = strings.TrimPrefix(b.Rules+"\n"+strings.Join(f[1:], " "), "\n")
	return nil
}

// SortFirewall brings base chains into the order in which packets pass those of a hook. The order of those with one
// priority is not known.
func SortFirewall(all []BaseChain) {
	SortFunc(all, func(a, b BaseChain) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Name, b.Name))
	})
}
