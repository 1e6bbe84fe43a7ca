package iptables

import (
	"cmp"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// hooks are the built-in chains of table filter in which a foreign rule must accept a client's
// packets to a VIP. FORWARD, which replies pass, is not one: our chain in front of it accepts them
// (measured: with policy DROP nothing is lost).
var hooks = []struct{ chain, hook string }{{"INPUT", "input"}, {"OUTPUT", "output"}}

// barriers finds chains that drop or reject packets which no rule accepts, by their policy or by a
// rule for all packets. text is the output of iptables-save.
func barriers(text string, f kernel.Family, tool Tool, names kernel.Names) ([]kernel.Barrier, error) {
	t, err := parseTable(text, "filter")
	if err != nil {
		return nil, err
	}
	var found []kernel.Barrier
	for _, h := range hooks {
		b := kernel.Barrier{Family: f, Hook: h.hook, Name: tool.Name + " filter " + h.chain}
		found = append(found, barred(b, t.rules, h.chain, t.policies[h.chain], names)...)
	}
	return found, nil
}

// barred returns b with the verdict of a chain, or nothing if the chain lets packets pass.
func barred(b kernel.Barrier, rules map[string][]string, chain, policy string, names kernel.Names) []kernel.Barrier {
	w := gates{rules: rules, names: names}
	verdict := cmp.Or(w.walk(chain, "", 0), policy)
	if verdict != "DROP" && verdict != "REJECT" {
		return nil
	}
	b.Verdict, b.Accepts = strings.ToLower(verdict), strings.Join(w.accepts, "\n")
	return []kernel.Barrier{b}
}

// filter is a table: the rules of each chain and the policies of the built-in chains.
type filter struct {
	rules    map[string][]string
	policies map[string]string
}

// parseTable reads one table from the output of iptables-save.
func parseTable(text, table string) (filter, error) {
	t := filter{rules: make(map[string][]string), policies: make(map[string]string)}
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			inside = line == "*"+table
		case !inside || line == "COMMIT":
		case line[0] == ':':
			if words := strings.Fields(line[1:]); len(words) > 1 {
				t.policies[words[0]] = words[1]
			}
		default:
			chain, rule, err := cutRule(line)
			if err != nil {
				return filter{}, err
			}
			t.rules[chain] = append(t.rules[chain], rule)
		}
	}
	return t, nil
}

// gates collects what a chain accepts.
type gates struct {
	rules    map[string][]string
	names    kernel.Names
	accepts  []string
	rulesMet int
}

// walk follows jumps to this depth and for this many rules. The kernel allows no loops, but many
// ways to one chain. Chains beyond the limits may accept anything.
const (
	deepest = 16
	mostMet = 10000
)

// walk adds what a chain accepts of the packets with these matches. It returns the verdict on
// packets that end in the chain, and "" if they return to the caller.
func (w *gates) walk(chain, matches string, depth int) string {
	for _, rule := range w.rules[chain] {
		if w.rulesMet++; w.rulesMet > mostMet {
			depth = deepest
		}
		its, target := cutTarget(rule)
		all := strings.TrimSpace(matches + " " + its)
		switch _, chain := w.rules[target]; {
		case w.names.OwnsChain("filter", target):
		case target == "ACCEPT", chain && depth == deepest:
			if all == "" {
				return "ACCEPT"
			}
			w.accepts = append(w.accepts, all)
			if its == "" {
				return "ACCEPT"
			}
		case target == "DROP" || target == "REJECT" || target == "RETURN":
			if its == "" {
				return strings.TrimSuffix(target, "RETURN")
			}
		case chain:
			if verdict := w.walk(target, all, depth+1); verdict != "" && its == "" {
				return verdict
			}
		}
	}
	return ""
}

// cutTarget splits a rule into its matches, without comments, and its target, "" if it has none.
func cutTarget(rule string) (matches, target string) {
	target = kernel.Target(rule)
	rule = kernel.WithoutComment(rule)
	for _, option := range []string{"-j ", "-g "} {
		if i := strings.Index(" "+rule, " "+option+target); i >= 0 {
			rule = rule[:i]
		}
	}
	return strings.TrimSpace(rule), target
}
