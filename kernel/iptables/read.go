package iptables

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// tables are those that have chains of ours, in the order of writing. Table raw comes last: filter
// must accept untracked packets before there are any.
var tables = []string{"nat", "filter", raw}

// raw is the table that exists only where some services are untracked.
const raw = "raw"

// tries is how often tables are read if they change meanwhile. After three tries Read returns the
// last reading, and the next sync reads again.
const tries = 3

// Read returns our chains with their rules, and the rules of built-in chains that jump to one of
// ours, in the order of kernel.State. It runs no tool if no program changed a rule of the family
// since the last Read.
func (t *Tables) Read(ctx context.Context, names kernel.Names) ([]kernel.Chain, error) {
	var s kernel.State
	for _, f := range t.families {
		if err := t.read(ctx, f, names); err != nil {
			return nil, fmt.Errorf("reading %s rules: %w", f.Family, err)
		}
		s.Chains = append(s.Chains, f.last...)
	}
	return s.Chains, nil
}

// Barriers returns the base chains that may drop our packets: those of iptables from the last Read,
// and those of other programs' tables in nftables.
func (t *Tables) Barriers() ([]kernel.Barrier, error) {
	var all []kernel.Barrier
	for _, f := range t.families {
		all = append(all, f.barriers...)
	}
	more, err := t.bases.read()
	return append(all, more...), err
}

func (t *Tables) read(ctx context.Context, f *family, names kernel.Names) error {
	id, err := f.stamp.read()
	if err != nil {
		return err
	}
	if f.cached && f.lastID == id && f.lastName == names {
		return nil
	}
	f.cached = false
	for try := 1; ; try++ {
		chains, barriers, err := t.save(ctx, f, names)
		if err != nil {
			return err
		}
		before := id
		if id, err = f.stamp.read(); err != nil {
			return err
		}
		if id == before || try == tries {
			f.last, f.barriers, f.lastID, f.lastName, f.cached = chains, barriers, id, names, id == before
			return nil
		}
	}
}

// save reads the tables that exist.
func (t *Tables) save(ctx context.Context, f *family, names kernel.Names) ([]kernel.Chain, []kernel.Barrier, error) {
	present, err := f.stamp.present()
	if err != nil {
		return nil, nil, err
	}
	var s kernel.State
	var found []kernel.Barrier
	for _, table := range present {
		t.readers.Add(1)
		out, err := t.run(ctx, "", f.tool.Name+"-save", "-t", table)
		if err != nil {
			return nil, nil, err
		}
		chains, err := parseSave(out, f.Family, names)
		var more []kernel.Barrier
		if err == nil {
			more, err = barriers(out, f.Family, f.tool, names)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s-save -t %s: %w", f.tool.Name, table, err)
		}
		s.Chains, found = append(s.Chains, chains...), append(found, more...)
	}
	s.Sort()
	return s.Chains, found, nil
}
