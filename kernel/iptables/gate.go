package iptables

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"

	"github.com/svcproxy/svcproxy/kernel"
)

// gateHooks are the built-in chains of each table in which rules of other programs may drop our packets.
var gateHooks = map[string][]struct{ chain, hook string }{
	"raw": {{"PREROUTING", "prerouting"}, {"OUTPUT", "output"}},
	"mangle": {{"PREROUTING", "prerouting"}, {"INPUT", "input"}, {"FORWARD", "forward"}, {"OUTPUT", "output"},
		{"POSTROUTING", "postrouting"}},
	"filter": {{"INPUT", "input"}, {"FORWARD", "forward"}, {"OUTPUT", "output"}},
}

// gateTables are the tables of gateHooks in the order in which a hook asks them.
var gateTables = []string{"raw", "mangle", "filter"}

// Gates returns the base chains that drop single packets, of iptables and of other programs' tables in nftables. It
// always runs iptables-save, so it is for questions of an operator: no sync calls it.
func (t *Tables) Gates(ctx context.Context, names kernel.Names) ([]kernel.Gate, error) {
	var all []kernel.Gate
	var hidden []hiddenTable
	for _, f := range t.families {
		t.readers.Add(1)
		out, err := t.run(ctx, "", f.tool.Name+"-save") // all tables that exist
		if err != nil {
			return nil, err
		}
		for _, table := range gateTables {
			if hides(out, table) {
				hidden = append(hidden, hiddenTable{f.Family, table})
			}
			found, err := gatesIn(out, table, f.Family, f.tool.Name, names)
			if err != nil {
				return nil, fmt.Errorf("%s-save: %w", f.tool.Name, err)
			}
			all = append(all, found...)
		}
	}
	more, err := t.bases.gates(hidden)
	return append(all, more...), err
}

// gatesIn finds the gates of a table in the output of iptables-save.
func gatesIn(text, table string, f kernel.Family, tool string, names kernel.Names) ([]kernel.Gate, error) {
	parsed, err := parseTable(text, table)
	if err != nil {
		return nil, err
	}
	var found []kernel.Gate
	for _, h := range gateHooks[table] {
		w := drops{rules: parsed.rules, owns: func(chain string) bool { return names.OwnsChain(table, chain) }}
		g := kernel.Gate{Family: f, Hook: h.hook, Name: fmt.Sprintf("%s %s %s", tool, table, h.chain)}
		found = append(found, w.gate(g, h.chain)...)
	}
	return found, nil
}

// gates finds the gates among base chains that iptables does not show.
func (b *baseChains) gates(hidden []hiddenTable) ([]kernel.Gate, error) {
	if ok, err := b.open(); !ok {
		return nil, err
	}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, err
	}
	defer conn.CloseLasting()
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("nftables base chains: %w", err)
	}
	var found []kernel.Gate
	for _, c := range chains {
		if hook(c) == "" || b.saved(c, hidden) || c.Type == nftables.ChainTypeNAT {
			continue
		}
		f := tableFamilies[c.Table.Family]
		w := drops{rules: map[string][]string{c.Name: rulesOf(conn, c)}, owns: func(string) bool { return false }}
		g := kernel.Gate{Family: f.Family, Hook: hook(c),
			Name: fmt.Sprintf("nftables %s %s %s", f.name, c.Table.Name, c.Name)}
		found = append(found, w.gate(g, c.Name)...)
	}
	return found, nil
}

// saved says whether iptables-save shows a chain in one of gateTables.
func (b *baseChains) saved(c *nftables.Chain, hidden []hiddenTable) bool {
	f := tableFamilies[c.Table.Family].Family
	return slices.Contains(gateTables, c.Table.Name) && slices.Contains(b.nft, f) &&
		(kernel.Chain{Name: c.Name}).BuiltIn() && !slices.Contains(hidden, hiddenTable{f, c.Table.Name})
}

// drops collects the rules of a base chain that end a packet's way.
type drops struct {
	rules map[string][]string
	owns  func(chain string) bool
	found []kernel.GateRule
	met   int
}

// gate returns the gate that a base chain is, or nothing if no rule drops single packets.
func (w *drops) gate(g kernel.Gate, chain string) []kernel.Gate {
	w.walk(chain, "", false, 0)
	if !slices.ContainsFunc(w.found, func(r kernel.GateRule) bool { return r.Verdict != "accept" && r.Matches != "" }) {
		return nil
	}
	g.Rules = w.found
	return []kernel.Gate{g}
}

// walk adds the rules of a chain for packets with these matches. Behind a rule that may return, the others
// are doubtful.
func (w *drops) walk(chain, matches string, doubtful bool, depth int) {
	add := func(matches, verdict string) {
		w.found = append(w.found, kernel.GateRule{Matches: matches, Verdict: verdict, Doubtful: doubtful})
	}
	for _, rule := range w.rules[chain] {
		if w.met++; w.met > mostMet {
			return
		}
		its, target := cutTarget(rule)
		all := strings.TrimSpace(matches + " " + its)
		switch _, chain := w.rules[target]; {
		case w.owns(target):
			if strings.HasSuffix(target, string(kernel.ChainForward)) { // it accepts what belongs to us
				add(strings.TrimSpace(all+" -m conntrack --ctstate RELATED,ESTABLISHED"), "accept")
				add(strings.TrimSpace(all+" "+unread), "accept")
			}
		case target == "ACCEPT", target == "DROP", target == "REJECT":
			add(all, strings.ToLower(target))
			if its == "" {
				return
			}
		case target == "RETURN":
			if its == "" {
				return
			}
			doubtful = true
		case chain && depth < deepest:
			w.walk(target, all, doubtful, depth+1)
		case chain:
			doubtful = true
		}
	}
}
