package nft

import (
	"cmp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// chains lists our chains of a family with their rules.
func (t *Table) chains(f kernel.Family, dormant bool, listed map[uint32]string) (all []kernel.Chain, err error) {
	table := t.table
	rules := make(map[string][]string) // by chain
	ask := func(b *nl.Batch) { b.Text(unix.NFTA_CHAIN_TABLE, table) }
	err = t.dump(unix.NFT_MSG_GETCHAIN, f, ask, func() { all, rules = nil, make(map[string][]string) },
		func(a nl.Attrs) error {
			name, at, policy, in, err := headOf(a)
			kind, chain, ok := cutChain(name)
			c := kernel.Chain{Family: f, Table: kind, Name: chain}
			if in != table || !ok || (kind == kernel.LimitsTable) != t.limits ||
				!c.BuiltIn() && !t.names.OwnsChain(kind, chain) {
				return err
			}
			all, rules[name] = append(all, c), nil
			switch want, ok := hooks[kind][chain]; {
			case ok && (at != want || policy != accept):
				rules[name] = []string{misplaced}
			case ok && dormant:
				rules[name] = []string{unread}
			case isClass(t.names, c):
				rules[name] = classRules(chain, listed)
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	ask = func(b *nl.Batch) { b.Text(unix.NFTA_RULE_TABLE, table) }
	heads := make(map[string]int, len(rules))
	for name, first := range rules {
		heads[name] = len(first)
	}
	restart := func() {
		for name := range rules {
			rules[name] = rules[name][:heads[name]]
		}
	}
	err = t.dump(unix.NFT_MSG_GETRULE, f, ask, restart, func(a nl.Attrs) error {
		name, rule, in, err := t.rule(f, a)
		if _, ours := rules[name]; ours && in == table {
			rules[name] = append(rules[name], rule)
		}
		return err
	})
	for i := range all {
		all[i].Rules = strings.Join(rules[chainName(all[i].Table, all[i].Name)], "\n")
	}
	return all, err
}

// headOf decodes a chain without its rules. at is zero if it is no base chain.
func headOf(a nl.Attrs) (name string, at base, policy uint32, table string, err error) {
	policy = accept
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_CHAIN_TABLE:
			table = a.Text()
		case unix.NFTA_CHAIN_NAME:
			name = a.Text()
		case unix.NFTA_CHAIN_POLICY:
			policy = a.U32BE()
		case unix.NFTA_CHAIN_TYPE:
			at.kind = a.Text()
		case unix.NFTA_CHAIN_HOOK:
			hook := a.Nested()
			for hook.Next() {
				switch hook.Type() {
				case unix.NFTA_HOOK_HOOKNUM:
					at.hook = hook.U32BE()
				case unix.NFTA_HOOK_PRIORITY:
					at.priority = int32(hook.U32BE())
				}
			}
			err = hook.Err()
		}
	}
	return name, at, policy, table, cmp.Or(err, a.Err())
}

// rule decodes a rule: its words, if the kernel has what these are compiled to.
func (t *Table) rule(f kernel.Family, a nl.Attrs) (chain, words, table string, err error) {
	var exprs nl.Attrs
	for a.Next() {
		switch a.Type() {
		case unix.NFTA_RULE_TABLE:
			table = a.Text()
		case unix.NFTA_RULE_CHAIN:
			chain = a.Text()
		case unix.NFTA_RULE_EXPRESSIONS:
			exprs = a.Nested()
		case unix.NFTA_RULE_USERDATA:
			words = wordsOf(a.Bytes())
		}
	}
	kind, _, _ := cutChain(chain)
	r, err := compile(t.names, f, kind, words)
	if words == "" || err != nil || !sameExprs(r.exprs, exprs) {
		words = unread
	}
	return chain, words, table, a.Err()
}
