package iptables

import (
	"context"
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// tables are those that have chains of ours, in the order of writing.
var tables = []string{"nat", "filter", raw}

// raw has chains of ours only if an earlier version made them. They are removed.
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
	t.bases.hidden = nil
	for _, f := range t.families {
		all = append(all, f.barriers...)
		for _, table := range f.hidden {
			t.bases.hidden = append(t.bases.hidden, hiddenTable{f.Family, table})
		}
	}
	more, err := t.bases.read()
	return append(all, more...), err
}

// Hidden returns the tables that iptables-save could not show in the last Read, as "iptables filter". Read
// gives them as the last Apply left them, without chains after Open.
func (t *Tables) Hidden() []string {
	var all []string
	for _, f := range t.families {
		for _, table := range f.hidden {
			all = append(all, f.tool.Name+" "+table)
		}
	}
	return all
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
		found, err := t.save(ctx, f, names)
		if err != nil {
			return err
		}
		before := id
		if id, err = f.stamp.read(); err != nil {
			return err
		}
		if id == before || try == tries {
			f.contents, f.applied, f.lastID, f.lastName = found, nil, id, names
			f.cached = id == before && !found.awaitsTool(f)
			return nil
		}
	}
}

// save reads the tables that exist.
func (t *Tables) save(ctx context.Context, f *family, names kernel.Names) (c contents, err error) {
	if f.other {
		return t.saveOther(ctx, f, names)
	}
	present, err := f.stamp.present()
	if err != nil {
		return contents{}, err
	}
	var s kernel.State
	for _, table := range present {
		t.readers.Add(1)
		out, err := t.run(ctx, "", f.tool.Name+"-save", "-t", table)
		if err != nil {
			return contents{}, err
		}
		if hides(out, table) {
			c.hidden = append(c.hidden, table)
			s.Chains = append(s.Chains, f.wrote(table, names)...)
			continue
		}
		chains, err := parseSave(out, f.Family, names)
		var more []kernel.Barrier
		if err == nil {
			more, err = barriers(out, f.Family, f.tool, names)
		}
		if err != nil {
			return contents{}, fmt.Errorf("%s-save -t %s: %w", f.tool.Name, table, err)
		}
		s.Chains, c.barriers = append(s.Chains, chains...), append(c.barriers, more...)
	}
	s.Sort()
	c.last = s.Chains
	return c, nil
}
