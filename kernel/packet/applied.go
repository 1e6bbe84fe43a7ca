package packet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// nftables has its own names of families.
var nftables = map[kernel.Family]string{kernel.IPv4: "ip", kernel.IPv6: "ip6"}

// Applied returns a reading as it will be with the wanted state. A jump of ours that a built-in chain lacks is in front
// of the rules of other programs, where it is inserted: before the first start a policy DROP of FORWARD seems to take
// replies that KUBE-FORWARD will accept. One that is there stays where it is. The other back end gets no jumps, and no
// base chain gets any where package nft writes our rules: they have their own.
func Applied(have *kernel.Observed, want *kernel.State) *kernel.Observed {
	o := *have
	o.State, o.Firewall = *want, slices.Clone(have.Firewall)
	for _, c := range want.Chains {
		if have.Native || !c.BuiltIn() {
			continue
		}
		tool := c.Family.Tool()
		name := fmt.Sprintf("%s %s %s", tool, c.Table, c.Name)
		if slices.Contains(have.Hidden, tool+" "+c.Table) {
			name = fmt.Sprintf("nftables %s %s %s", nftables[c.Family], c.Table, c.Name)
		}
		for i := range o.Firewall {
			if b := &o.Firewall[i]; b.Name == name {
				b.Rules = withJumps(b.Rules, c.Rules)
			}
		}
	}
	return &o
}

// withJumps returns the rules of a base chain with wanted jumps in front, if they are not among them.
func withJumps(rules, jumps string) string {
	own, _, _ := strings.Cut("\n"+rules, "\n:") // without the chains that it jumps to
	var there, lines []string
	for rule := range strings.SplitSeq(own, "\n") {
		there = append(there, kernel.Target(rule))
	}
	for jump := range strings.SplitSeq(jumps, "\n") {
		if !slices.Contains(there, kernel.Target(jump)) {
			lines = append(lines, jump)
		}
	}
	if rules != "" {
		lines = append(lines, rules)
	}
	return strings.Join(lines, "\n")
}
