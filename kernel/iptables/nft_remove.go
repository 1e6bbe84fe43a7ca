package iptables

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/svcproxy/svcproxy/kernel"
)

// removeNFT removes chains from a table of nftables, and the jumps of built-in chains to them, in one commit.
// It needs no tool. A chain that a chain of another program jumps to is emptied and stays.
func removeNFT(f *family, table string, ops []kernel.Op, which []int) error {
	if !f.tool.NFT {
		return errors.New("only iptables-legacy can write the legacy tables")
	}
	var goes []string
	for _, i := range which {
		if ops[i].Verb != kernel.Remove {
			return errors.New("only the names of its chains are known")
		}
		goes = append(goes, chainOf(ops[i]).Name)
	}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return err
	}
	defer conn.CloseLasting()
	all, err := conn.ListChainsOfTableFamily(nftables.TableFamily(nfproto[f.Family]))
	if err != nil {
		return err
	}
	in := slices.DeleteFunc(all, func(c *nftables.Chain) bool { return c.Table.Name != table })
	held, err := cutJumps(conn, in, goes)
	if err != nil {
		return err
	}
	var last []*nftables.Chain
	for _, c := range in {
		if slices.Contains(goes, c.Name) {
			conn.FlushChain(c)
			last = append(last, c)
		}
	}
	for _, c := range last {
		if !slices.Contains(held, c.Name) {
			conn.DelChain(c)
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	if len(held) > 0 {
		return fmt.Errorf("emptied, but a rule that is not ours still jumps to it: %s", held[0])
	}
	return nil
}

// cutJumps removes the jumps of built-in chains to chains that go. It returns those to which other chains
// jump that stay.
func cutJumps(conn *nftables.Conn, chains []*nftables.Chain, goes []string) (held []string, err error) {
	for _, c := range chains {
		if slices.Contains(goes, c.Name) {
			continue
		}
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, fmt.Errorf("rules of chain %s: %w", c.Name, err)
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				v, ok := e.(*expr.Verdict)
				switch {
				case !ok || !slices.Contains(goes, v.Chain):
				case !(kernel.Chain{Name: c.Name}).BuiltIn():
					held = append(held, v.Chain)
				default:
					if err := conn.DelRule(r); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return held, nil
}
