package iptables

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// leastEdited is the number of rules from which a chain is edited rule by rule, and not written as a whole.
// iptables-nft-restore searches a list of all targets before for each rule that jumps to a chain, so 2,500 jumps
// to different chains take 0.2 s and 20,000 take 10 s (iptables 1.8.9).
var leastEdited = 1000 // tests change it

// editsOf returns the edits of ops that change a long chain, by their index. The kernel must have as many rules as
// the last reading: rules are removed by number. The legacy tools write a table as a whole in any case.
func (f *family) editsOf(ops []kernel.Op) map[int][]string {
	s, ok := f.stamp.(*nftStamp)
	if !ok {
		return nil
	}
	found := map[int][]string{}
	for i, op := range ops {
		c, was := chainOf(op), chainOf(kernel.Op{Object: op.Was})
		n := strings.Count(was.Rules, "\n") + 1
		if c.Family != f.Family || op.Verb != kernel.Change || c.BuiltIn() || n < leastEdited {
			continue
		}
		if have, err := s.rules(c.Table, c.Name); err == nil && have == n {
			if lines := edits(c.Name, was.Rules, c.Rules); lines != nil {
				found[i] = lines
			}
		}
	}
	return found
}

// edits returns what makes some rules of other ones, as lines of iptables-restore. It is nil if the rules that
// stay would change places, a rule is there twice, or most of them go: then the chain is written as a whole.
func edits(name, was, want string) []string {
	old, rules := strings.Split(was, "\n"), strings.Split(want, "\n")
	place := make(map[string]int, len(rules))
	for i, rule := range rules {
		place[kernel.WithoutComment(rule)] = i
	}
	lines := []string{}
	stays, last := make([]bool, len(rules)), len(rules)
	for i := len(old) - 1; i >= 0; i-- {
		at, ok := place[kernel.WithoutComment(old[i])]
		switch {
		case !ok:
			lines = append(lines, "-D "+name+" "+strconv.Itoa(i+1))
		case at >= last:
			return nil
		default:
			stays[at], last = true, at
		}
	}
	if len(place) < len(rules) || 2*len(lines) > len(old) {
		return nil
	}
	end := len(rules)
	for end > 0 && !stays[end-1] {
		end--
	}
	for i, rule := range rules {
		switch {
		case stays[i]:
		case i >= end:
			lines = append(lines, "-A "+name+" "+rule)
		default:
			lines = append(lines, "-I "+name+" "+strconv.Itoa(i+1)+" "+rule)
		}
	}
	return lines
}

// rules returns how many rules a chain has.
func (s *nftStamp) rules(table, chain string) (n int, err error) {
	err = s.dump(unix.NFT_MSG_GETRULE, func(b *nl.Batch) {
		b.Text(unix.NFTA_RULE_TABLE, table)
		b.Text(unix.NFTA_RULE_CHAIN, chain)
	}, func() { n = 0 }, func(uint8, nl.Attrs) error { n++; return nil })
	return n, err
}
