package iptables

import (
	"cmp"
	"net"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// nftReader reads the rules of one table of nftables in the words of iptables.
type nftReader struct {
	conn  *nftables.Conn
	stamp *nftStamp
	table nftTable
	deep  bool
	rules map[string][]string // by chain; nil until they are read
	err   error               // the first one
}

// chain returns the rules of a chain, and false if there is none. The library fails on a rule that it
// cannot decode. Such a chain may do anything, so it counts as one unread rule.
func (r *nftReader) chain(name string) ([]string, bool) {
	if rules, found := r.rules[name]; !found || rules != nil {
		return rules, found
	}
	t := &nftables.Table{Name: r.table.name, Family: r.table.family}
	all, err := r.conn.GetRules(t, &nftables.Chain{Name: name, Table: t})
	lines := []string{}
	if err != nil {
		lines = []string{unread + " -j DROP", unread + " -j ACCEPT"}
	}
	odd, err := r.odd(name)
	r.err = cmp.Or(r.err, err) // the first: another chain's success does not make up for it
	for i, rule := range all {
		w := nftRule{elements: r.elements, link: linkName}
		if i < len(odd) {
			w.odd = odd[i]
		}
		lines = append(lines, w.read(rule.Exprs)...)
	}
	r.rules[name] = lines
	return lines, true
}

// linkName returns the name of a link, "" if there is none with the index.
func linkName(index uint32) string {
	link, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return ""
	}
	return link.Name
}

// oddOnes are expressions that end a packet's way, or give it another, and that google/nftables leaves out of a rule.
var oddOnes = map[string]string{"tproxy": "TPROXY", "fwd": "FORWARD-TO-DEVICE"}

// odd returns the target of each rule of a chain that is one of oddOnes, else "".
func (r *nftReader) odd(chain string) (targets []string, err error) {
	ask := func(b *nl.Batch) {
		b.Text(unix.NFTA_RULE_TABLE, r.table.name)
		b.Text(unix.NFTA_RULE_CHAIN, chain)
	}
	s := &nftStamp{conn: r.stamp.conn, family: uint8(r.table.family)}
	err = s.dump(unix.NFT_MSG_GETRULE, ask, func() { targets = nil }, func(_ uint8, a nl.Attrs) error {
		target := ""
		for a.Next() {
			if a.Type() != unix.NFTA_RULE_EXPRESSIONS {
				continue
			}
			list := a.Nested()
			for list.Next() {
				e := list.Nested()
				for e.Next() {
					if e.Type() == unix.NFTA_EXPR_NAME && oddOnes[e.Text()] != "" {
						target = oddOnes[e.Text()]
					}
				}
			}
		}
		targets = append(targets, target)
		return a.Err()
	})
	return targets, err
}
