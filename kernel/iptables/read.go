package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

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

// Firewall returns the base chains with rules of other programs that may end our packets' way, or change it, in the
// order of kernel.SortFirewall: those of iptables from the last Read, and those of tables of nftables. It runs
// no tool, so it does not know what tables are in the other back end, and of those of iptables in nftables that have
// no chains of ours only what nftables says.
func (t *Tables) Firewall(names kernel.Names) ([]kernel.BaseChain, error) {
	var all []kernel.BaseChain
	shown := natives(names)
	for _, f := range t.families {
		all = append(all, f.firewall...)
		if f.tool.NFT {
			shown = append(shown, shownIn(f.Family, f.hidden, tables)...)
		}
	}
	more, err := t.bases.read(shown, names)
	all = append(all, more...)
	kernel.SortFirewall(all)
	return all, err
}

// natives are the tables of package nft.
func natives(names kernel.Names) []shownTable {
	return []shownTable{{kernel.IPv4, names.Table()}, {kernel.IPv6, names.Table()},
		{kernel.IPv4, names.LimitsTable()}, {kernel.IPv6, names.LimitsTable()}}
}

// shownIn returns the tables that iptables-save shows of those that it may.
func shownIn(f kernel.Family, hidden, all []string) (shown []shownTable) {
	for _, table := range all {
		if !slices.Contains(hidden, table) {
			shown = append(shown, shownTable{f, table})
		}
	}
	return shown
}

// WholeFirewall is Firewall with all tables of both back ends, and the elements of named sets. It always runs
// iptables-save, so it is for questions of an operator: no sync calls it.
func (t *Tables) WholeFirewall(ctx context.Context, names kernel.Names) ([]kernel.BaseChain, error) {
	var all []kernel.BaseChain
	var errs []error
	shown := natives(names)
	for _, f := range slices.Concat(t.families, t.others) {
		if f.other {
			if there, err := f.look(t.bases.dialer); err != nil || !there || !f.tool.NFT && len(f.inUse()) == 0 {
				errs = append(errs, err)
				continue
			}
		}
		found, hidden, err := t.saveForeign(ctx, f, names)
		if errs = append(errs, err); err != nil {
			continue
		}
		if all = append(all, found...); f.tool.NFT {
			shown = append(shown, shownIn(f.Family, hidden, slices.Sorted(maps.Keys(places)))...)
		}
	}
	if there, err := t.bases.open(); there {
		more, err := t.bases.list(shown, names, true)
		for try := 1; errors.Is(err, unix.ENOENT) && try < tries; try++ { // a chain or set is gone since they were listed
			more, err = t.bases.list(shown, names, true)
		}
		all, errs = append(all, more...), append(errs, err)
	} else {
		errs = append(errs, err)
	}
	kernel.SortFirewall(all)
	return all, errors.Join(errs...)
}

// saveForeign reads the base chains of all tables of a family. Legacy tables that no tool shows may do anything.
func (t *Tables) saveForeign(ctx context.Context, f *family, names kernel.Names) (found []kernel.BaseChain,
	hidden []string, err error) {
	t.readers.Add(1)
	out, err := t.run(ctx, "", f.tool.Name+"-save") // all tables that exist
	if f.other && errors.Is(err, exec.ErrNotFound) {
		hidden = slices.Collect(maps.Keys(places))
		if f.tool.NFT {
			return nil, hidden, nil
		}
		for _, table := range f.inUse() {
			for _, p := range places[table] {
				found = append(found, kernel.BaseChain{Family: f.Family, Hook: p.hook, Priority: p.priority, Policy: "accept",
					Name: fmt.Sprintf("%s %s %s", f.tool.Name, table, p.chain), Rules: unread + " -j DROP"})
			}
		}
		return found, hidden, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the firewall of %s: %w", f.tool.Name, err)
	}
	for table := range places {
		if hides(out, table) {
			hidden = append(hidden, table)
		}
	}
	found, err = baseChainsIn(out, f.Family, f.tool, names)
	if err != nil {
		err = fmt.Errorf("%s-save: %w", f.tool.Name, err)
	}
	return found, hidden, err
}

// inUse returns the legacy tables that exist; none if the list may not be read. iptables-legacy-save prints these
// alone, and makes none.
func (f *family) inUse() []string {
	list, _ := os.ReadFile(layouts[f.Family].names)
	return strings.Fields(string(list))
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
		var more []kernel.BaseChain
		if err == nil {
			more, err = baseChainsIn(out, f.Family, f.tool, names)
		}
		if err != nil {
			return contents{}, fmt.Errorf("%s-save -t %s: %w", f.tool.Name, table, err)
		}
		s.Chains, c.firewall = append(s.Chains, chains...), append(c.firewall, more...)
	}
	s.Sort()
	c.last = s.Chains
	return c, nil
}
