package nft

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Try reports whether the kernel takes rules, the sets that they name, and the base chains of their tables. It writes
// all of it in a transaction whose last message cannot succeed, so nothing of it ever takes effect. If something is
// refused the error is a *kernel.MissingError that names the rule. Without IPv6 its chains are left out.
func (t *Table) Try(chains []kernel.Chain) error {
	b, table := new(nl.Batch), t.table+"-trial"
	var about []string // what each message is about
	limit(b, unix.NFNL_MSG_BATCH_BEGIN)
	about = append(about, "a transaction")
	if !nl.HasIPv6() {
		chains = slices.DeleteFunc(slices.Clone(chains), func(c kernel.Chain) bool { return c.Family == kernel.IPv6 })
	}
	for _, f := range families {
		putTable(b, table, f)
		about = append(about, "a table of family "+ip(f))
	}
	tried, ids := make(map[string]bool), uint32(0) // sets and base chains
	for _, c := range chains {
		if err := t.tryObjects(b, table, c, tried, &ids, &about); err != nil {
			return err
		}
		putChain(b, table, c)
		about = append(about, "a chain")
	}
	for _, c := range chains {
		for words := range strings.SplitSeq(c.Rules, "\n") {
			if words == "" {
				continue
			}
			r, err := compile(t.names, c.Family, c.Table, words)
			if err != nil {
				return err
			}
			own, err := userdata(words, r.comment)
			if err != nil {
				return err
			}
			putRule(b, table, c, r.exprs, own)
			about = append(about, fmt.Sprintf("%q", words))
		}
	}
	begin(b, unix.NFT_MSG_DELTABLE, 0, kernel.IPv4)
	b.Text(unix.NFTA_TABLE_NAME, table+"-that-is-not-there")
	b.End()
	about = append(about, "")
	limit(b, unix.NFNL_MSG_BATCH_END)

	var failed *nl.BatchError
	err := t.conn.Commit(b, nil)
	if !errors.As(err, &failed) {
		return fmt.Errorf("trying rules of nftables: %w", err)
	}
	m := failed.Messages[0]
	switch {
	case m.Index == len(about)-1:
		return nil
	case errors.Is(m.Err, unix.EPERM):
		return fmt.Errorf("trying rules of nftables: %w", m.Err)
	}
	return &kernel.MissingError{
		What: fmt.Sprintf("nftables does not take %s: %v", about[m.Index], m.Err),
		Hint: "load or install the kernel's modules for nftables (nft_*); Linux 5.6 is the oldest that has all",
	}
}

// tryObjects adds the base chains of a chain's table, and the sets and the flowtable that its rules name.
// ids counts the sets.
func (t *Table) tryObjects(b *nl.Batch, table string, c kernel.Chain, tried map[string]bool, ids *uint32,
	about *[]string) error {
	for name := range hooks[c.Table] {
		base := kernel.Chain{Family: c.Family, Table: c.Table, Name: name}
		if tried[base.String()] {
			continue
		}
		tried[base.String()] = true
		putChain(b, table, base)
		*about = append(*about, "a base chain of table "+c.Table)
	}
	words := strings.Fields(c.Rules)
	if name := ip(c.Family) + " " + flowtable; slices.Contains(words, "FLOWOFFLOAD") && !tried[name] {
		tried[name] = true
		putFlowtable(b, unix.NFT_MSG_NEWFLOWTABLE, table, c.Family, nil)
		*about = append(*about, "a flowtable (modules nf_flow_table and nft_flow_offload)")
	}
	for i, w := range words {
		if w != "--match-set" && w != "--map" && w != "--meter" || i+1 == len(words) || tried[words[i+1]] {
			continue
		}
		f, spec, ok := t.names.SetSpec(words[i+1])
		if !ok {
			return fmt.Errorf("set %s is not ours", words[i+1])
		}
		tried[words[i+1]] = true
		s := kernel.Set{Name: words[i+1], Type: spec.Type, Family: f, MaxElem: 1}
		*ids++
		if err := putSet(b, table, s, *ids); err != nil {
			return err
		}
		*about = append(*about, "a set of type "+string(s.Type))
		if s.Type == kernel.MapIPPort {
			*ids++
			putClasses(b, table, t.names, f, *ids)
			*about = append(*about, "a map of chains")
		}
	}
	return nil
}
