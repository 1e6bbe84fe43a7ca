package nft

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// reading is what our tables have, sorted as in kernel.State.
type reading struct {
	sets    []kernel.Set
	entries kernel.Entries
	chains  []kernel.Chain
	classes map[kernel.Family]map[uint32]string // chains by their numbers
	dormant bool                                // a table is switched off: none of its base chains is called
}

// unread is a rule that no state wants. It stands for one that another program changed.
const unread = "-m unread"

// misplaced is a rule in front of those of a base chain that is not where it belongs, or whose policy is not to
// accept. Apply makes such a chain again.
const misplaced = unread + " chain"

// changed is the type of a set that is not as we make it.
const changed kernel.SetType = "changed"

// attempts is how often our tables are read while other programs change rules.
const attempts = 5

// ReadSets returns the sets with our names and their entries. All have room for any number of entries. A set that is
// not as we make it has a type that we do not use, and no entries.
func (t *Table) ReadSets() ([]kernel.Set, kernel.Entries, error) {
	r, err := t.read(true)
	return r.sets, r.entries, err
}

// ReadChains returns our chains.
func (t *Table) ReadChains() ([]kernel.Chain, error) {
	r, err := t.read(false)
	return r.chains, err
}

// VerifySets reports whether our sets are as known, and the entries of those that has selects. It lists no entries if
// no program changed rules since it found the same ones.
func (t *Table) VerifySets(known *kernel.State, has func(set string) bool) (bool, error) {
	r, err := t.read(false)
	if err != nil || !slices.EqualFunc(r.sets, known.Sets, sameSet) {
		return false, err
	}
	listed := false
	for _, s := range r.sets {
		want := known.Entries.Of(s.Name)
		v, found := t.verified[s.Name]
		if found && v.Equal(want) || s.Type == changed || !has(s.Name) {
			continue
		}
		listed = true
		same, err := t.sameElements(s, want)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return false, fmt.Errorf("reading set %s of nftables: %w", s.Name, err)
		}
		if err != nil || !same {
			return false, nil
		}
		if t.verified == nil {
			t.verified = make(map[string]kernel.Entries)
		}
		t.verified[s.Name] = want
	}
	if !listed {
		return true, nil
	}
	id, err := t.generation()
	if err != nil || id != t.id {
		t.forget()
	}
	return err == nil, err
}

// sameSet ignores the capacity, which sets have none of here.
func sameSet(a, b kernel.Set) bool {
	return a.Name == b.Name && a.Type == b.Type && a.Family == b.Family
}

// forget makes the next reading list everything.
func (t *Table) forget() {
	t.heads, t.full, t.verified = false, false, nil
	t.last.entries = kernel.Entries{} // they may be many
}

// read returns what was read last if no program has changed rules since. Without entries it lists none, and returns
// none but by chance.
func (t *Table) read(entries bool) (reading, error) {
	for range attempts {
		id, err := t.generation()
		if err != nil {
			return reading{}, fmt.Errorf("reading nftables: %w", err)
		}
		if id != t.id {
			t.forget()
		}
		if t.heads && (t.full || !entries) {
			return t.last, nil
		}
		t.id = id
		r, err := t.list(entries)
		if err != nil && !errors.Is(err, unix.ENOENT) { // removed meanwhile
			return reading{}, fmt.Errorf("reading nftables: %w", err)
		}
		after, err2 := t.generation()
		if err2 != nil {
			return reading{}, fmt.Errorf("reading nftables: %w", err2)
		}
		if err == nil && after == id {
			t.last, t.heads, t.full = r, true, entries
			return r, nil
		}
		t.forget()
	}
	return reading{}, fmt.Errorf("reading nftables: %w", nl.ErrInterrupted)
}

// list lists what is not known.
func (t *Table) list(entries bool) (r reading, err error) {
	r = t.last
	if !t.heads {
		r, err = t.listHeads()
		t.last.classes = r.classes
	}
	if err != nil || !entries {
		return r, err
	}
	r.sets = slices.Clone(r.sets)
	all := make([]kernel.Entry, 0, t.count*9/8)
	for i := range r.sets {
		if all, err = t.elements(&r.sets[i], all); err != nil {
			return r, fmt.Errorf("set %s: %w", r.sets[i].Name, err)
		}
	}
	r.entries, t.count = kernel.EntriesOf(all), len(all)
	return r, nil
}

// listHeads lists sets without their entries, and chains.
func (t *Table) listHeads() (r reading, err error) {
	r.classes = make(map[kernel.Family]map[uint32]string)
	for _, f := range families {
		dormant, err := t.dormant(f)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return r, err
		}
		sets, err := t.sets(f)
		if err != nil {
			return r, err
		}
		var listed map[uint32]string
		if slices.ContainsFunc(sets, func(s kernel.Set) bool { return s.Type == kernel.MapIPPort }) {
			if listed, err = t.listClasses(f); err != nil {
				return r, err
			}
		}
		chains, err := t.chains(f, dormant, listed)
		if err != nil {
			return r, err
		}
		r.classes[f] = make(map[uint32]string)
		for _, c := range chains {
			if isClass(t.names, c) {
				r.classes[f][classOf(c.Name)] = c.Name
			}
		}
		r.sets, r.chains = append(r.sets, sets...), append(r.chains, chains...)
		r.dormant = r.dormant || dormant
	}
	kernel.SortFunc(r.sets, kernel.Set.Compare)
	kernel.SortFunc(r.chains, kernel.Chain.Compare)
	return r, nil
}

// dormant reports whether a table is switched off. The error is ENOENT if there is none.
func (t *Table) dormant(f kernel.Family) (dormant bool, err error) {
	b := t.ask(unix.NFT_MSG_GETTABLE, uint8(f))
	b.Text(unix.NFTA_TABLE_NAME, t.table)
	b.End()
	err = t.conn.Get(b, func(p []byte) error {
		a, err := payload(p)
		for err == nil && a.Next() {
			if a.Type() == unix.NFTA_TABLE_FLAGS {
				dormant = a.U32BE()&tableDormant != 0
			}
		}
		return errors.Join(err, a.Err())
	})
	return dormant, err
}

// dump lists objects of our table of a family.
func (t *Table) dump(typ uint16, f kernel.Family, ask func(*nl.Batch), restart func(),
	each func(nl.Attrs) error) error {
	b := t.ask(typ, uint8(f))
	ask(b)
	b.End()
	return t.conn.Dump(b, restart, func(p []byte) error {
		a, err := payload(p)
		if err != nil {
			return err
		}
		return each(a)
	})
}
