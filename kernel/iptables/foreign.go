package iptables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
)

// place is where a built-in chain stands: its hook, and its order there (linux/netfilter_ipv4.h).
type place struct {
	chain, hook string
	priority    int32
}

// places are the built-in chains of each table.
var places = map[string][]place{
	"raw": {{"PREROUTING", "prerouting", -300}, {"OUTPUT", "output", -300}},
	"mangle": {{"PREROUTING", "prerouting", -150}, {"INPUT", "input", -150}, {"FORWARD", "forward", -150},
		{"OUTPUT", "output", -150}, {"POSTROUTING", "postrouting", -150}},
	"nat": {{"PREROUTING", "prerouting", -100}, {"OUTPUT", "output", -100}},
	"filter": {{"INPUT", "input", 0}, {"FORWARD", "forward", 0},
		{"OUTPUT", "output", 0}},
	"security": {{"INPUT", "input", 50}, {"FORWARD", "forward", 50}, {"OUTPUT", "output", 50}},
}

// table is the chains of a table that are not ours.
type table struct {
	rules    map[string][]string
	policies map[string]string // of every chain; "-" if it is not built in
}

// chain returns the rules of a chain, and false if there is none.
func (t *table) chain(name string) ([]string, bool) {
	_, found := t.policies[name]
	return t.rules[name], found
}

// parseTables reads all tables from the output of iptables-save, without chains of ours.
func parseTables(text string, names kernel.Names) (map[string]*table, error) {
	tables := make(map[string]*table)
	err := eachLine(text, func(in, line string) error {
		t := tables[in]
		if t == nil {
			t = &table{make(map[string][]string), make(map[string]string)}
			tables[in] = t
		}
		if line[0] == ':' {
			if words := strings.Fields(line[1:]); len(words) > 1 && !names.OwnsChain(in, words[0]) {
				t.policies[words[0]] = words[1]
			}
			return nil
		}
		chain, rule, err := cutRule(line)
		if err == nil && !names.OwnsChain(in, chain) {
			t.rules[chain] = append(t.rules[chain], rule)
		}
		return err
	})
	return tables, err
}

// baseChainsIn finds the base chains in the output of iptables-save that may end a packet's way, or change it.
func baseChainsIn(text string, f kernel.Family, tool Tool, names kernel.Names) (found []kernel.BaseChain, err error) {
	tables, err := parseTables(text, names)
	if err != nil {
		return nil, err
	}
	for name, t := range tables {
		for _, p := range places[name] {
			policy := "accept"
			if t.policies[p.chain] == "DROP" {
				policy = "drop"
			}
			b := kernel.BaseChain{Family: f, Hook: p.hook, Priority: p.priority, Policy: policy,
				Name: fmt.Sprintf("%s %s %s", tool.Name, name, p.chain)}
			found = append(found, follow(b, p.chain, t.chain, func(chain string) bool {
				return names.OwnsChain(name, chain)
			})...)
		}
	}
	kernel.SortFirewall(found)
	return found, nil
}

// mostRules is how many rules of a base chain are kept. Those of large ones may do anything.
const mostRules = 10000

// follow adds the rules of a base chain and of the chains that they jump to. rulesOf returns false for what is no chain
// of others, owns reports whether it is ours. It returns nothing if packets pass the base chain as they are.
func follow(b kernel.BaseChain, chain string, rulesOf func(string) ([]string, bool),
	owns func(string) bool) []kernel.BaseChain {
	var lines []string
	queue, matters := []string{chain}, b.Policy != "accept"
	for i := 0; i < len(queue) && len(lines) < mostRules; i++ {
		if i > 0 {
			lines = append(lines, ":"+queue[i])
		}
		rules, _ := rulesOf(queue[i])
		for _, rule := range rules {
			rule = kernel.WithoutComment(rule)
			lines = append(lines, rule)
			target := kernel.Target(rule)
			if owns(target) {
				continue
			}
			passes, _ := packet.Passes(target)
			_, jumps := rulesOf(target)
			if jumps && !slices.Contains(queue, target) {
				queue = append(queue, target)
			}
			matters = matters || !passes && !jumps
		}
	}
	if !matters {
		return nil
	}
	if len(lines) >= mostRules {
		lines = []string{unread + " -j DROP", "-j ACCEPT"}
	}
	b.Rules = strings.Join(lines, "\n")
	return []kernel.BaseChain{b}
}
