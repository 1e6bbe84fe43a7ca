package iptables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// The kernel has two back ends of iptables at once: nftables and the legacy tables. Packets pass the rules of
// both. One of them is written, that of the iptables which Open finds; both are read for our names. Names are
// read from the kernel itself, so a tool of the other back end runs only where something of ours is left.

// backendNames are the names of back ends, as in iptables-legacy.
var backendNames = map[bool]string{false: kernel.BackendLegacy, true: kernel.BackendNFT} // by Tool.NFT

// otherOf returns the tables of a family in the back end that its tool does not write.
func otherOf(f kernel.Family, written Tool) *family {
	nft := !written.NFT
	return &family{Family: f, tool: Tool{Name: f.Tool() + "-" + backendNames[nft], NFT: nft}, other: true}
}

// look opens the stamp of another back end. It reports false if the kernel has not loaded that: a request
// would load it.
func (f *family) look(d *nl.Dialer) (bool, error) {
	if f.stamp != nil {
		return true, nil
	}
	if f.tool.NFT && !nftablesLoaded() {
		return false, nil
	}
	s, err := newStamp(f.Family, f.tool, d)
	if err != nil {
		return false, fmt.Errorf("opening the tables of %s: %w", f.tool.Name, err)
	}
	if l, ok := s.(*legacyStamp); ok {
		l.passive = true
	}
	f.stamp = s
	return true, nil
}

// Others returns our chains and jumps in the back ends that are not written, in the order of kernel.State. As
// Read, it runs no tool if no rule there changed since the last call. With an error, those of a family that could not
// be read are as in its last reading, or none if they were written since.
func (t *Tables) Others(ctx context.Context, names kernel.Names) ([]kernel.OtherChain, error) {
	var s kernel.State
	var errs []error
	for _, f := range t.others {
		there, err := f.look(t.bases.dialer)
		if err == nil && there {
			err = t.read(ctx, f, names)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("looking for rules in the tables of %s: %w", f.tool.Name, err))
		}
		backend := backendNames[f.tool.NFT]
		s.Others = append(s.Others, kernel.OtherChains(f.last, backend, false)...)
		s.Others = append(s.Others, kernel.OtherChains(f.unshown, backend, !f.tool.NFT)...)
	}
	s.Sort()
	return s.Others, errors.Join(errs...)
}

// saveOther reads the tables of another back end that have chains of ours. Where no tool shows them, as it is
// not installed or the table has rules that only nft can express, their names are all that is known.
func (t *Tables) saveOther(ctx context.Context, f *family, names kernel.Names) (c contents, err error) {
	found, err := f.stamp.chains()
	if err != nil {
		return contents{}, err
	}
	for _, table := range tables {
		ours := slices.DeleteFunc(found[table], func(name string) bool { return !names.OwnsChain(table, name) })
		if len(ours) == 0 {
			continue
		}
		out, err := t.run(ctx, "", f.tool.Name+"-save", "-t", table)
		missing := errors.Is(err, exec.ErrNotFound)
		if !missing {
			t.readers.Add(1)
		}
		if ctx.Err() != nil || err != nil && !missing && !f.tool.NFT { // legacy tables are not written without the tool
			return contents{}, err
		}
		if err != nil || hides(out, table) {
			c.hidden = append(c.hidden, table)
			for _, name := range ours {
				c.unshown = append(c.unshown, kernel.Chain{Family: f.Family, Table: table, Name: name})
			}
			continue
		}
		chains, err := parseSave(out, f.Family, names)
		if err != nil {
			return contents{}, fmt.Errorf("%s-save -t %s: %w", f.tool.Name, table, err)
		}
		c.last = append(c.last, chains...)
	}
	return c, nil
}

// awaitsTool reports whether tables can be read and written as soon as their tool is installed, which changes no rule.
func (c *contents) awaitsTool(f *family) bool { return !f.tool.NFT && len(c.unshown) > 0 }

// ApplyOthers carries out ops, each of them a change or removal of a kernel.OtherChain, as Apply does. Tables
// that no tool shows are written without a tool.
func (t *Tables) ApplyOthers(ctx context.Context, ops []kernel.Op) []error {
	errs := make([]error, len(ops))
	chains := make([]kernel.Op, len(ops))
	backends := make([]string, len(ops))
	for i, op := range ops {
		to, _ := op.Object.(kernel.OtherChain)
		was, _ := op.Was.(kernel.OtherChain)
		chains[i], backends[i] = kernel.Op{Verb: op.Verb, Object: to.Chain, Was: was.Chain}, to.Backend
		errs[i] = t.unfit(chains[i])
	}
	for _, f := range t.others {
		ss := othersSections(f.Family, chains)
		for i := range ss {
			ss[i].ops = slices.DeleteFunc(ss[i].ops, func(op int) bool { return backends[op] != backendNames[f.tool.NFT] })
		}
		ss = slices.DeleteFunc(ss, func(s section) bool { return len(s.ops) == 0 })
		f.cached = false
		if len(ss) > 0 {
			f.last, f.unshown = nil, nil
		}
		ss = slices.DeleteFunc(ss, func(s section) bool {
			if !slices.Contains(f.hidden, s.table) {
				return false
			}
			if err := removeNFT(f, s.table, chains, s.ops); err != nil {
				spread([]section{s}, errs, fmt.Errorf("removing chains from table %s of %s: %w", s.table, f.tool.Name, err))
			}
			return true
		})
		if len(ss) == 0 {
			continue
		}
		w := &writer{tables: t, f: f, ss: ss, ops: chains, keep: make(map[int]bool)}
		w.begin(ctx)
		w.end(ctx, errs)
	}
	return errs
}

// othersSections is sections in the order in which tables are removed. A filter refuses what no rule of nat
// translates, so it goes first.
func othersSections(f kernel.Family, ops []kernel.Op) []section {
	ss := sections(f, ops)
	kernel.SortFunc(ss, func(a, b section) int { return slices.Index(tables, b.table) - slices.Index(tables, a.table) })
	return ss
}
