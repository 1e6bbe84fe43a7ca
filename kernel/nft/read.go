package nft

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// reading is what our tables have, sorted as in kernel.State.
type reading struct {
	sets    []kernel.Set
	entries kernel.Entries
	chains  []kernel.Chain
	dormant bool // a table is switched off: none of its base chains is called
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
		if found && kernel.SameSlice(v, want) || s.Type == changed || !has(s.Name) {
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
			t.verified = make(map[string][]kernel.Entry)
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
		chains, err := t.chains(f, dormant)
		if err != nil {
			return r, err
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
	b.Text(unix.NFTA_TABLE_NAME, t.names.Table())
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

// sets lists our sets of a family, sorted.
func (t *Table) sets(f kernel.Family) (all []kernel.Set, err error) {
	ask := func(b *nl.Batch) { b.Text(unix.NFTA_SET_TABLE, t.names.Table()) }
	err = t.dump(unix.NFT_MSG_GETSET, f, ask, func() { all = all[:0] }, func(a nl.Attrs) error {
		var name string
		var flags, typ, size, dataType, dataSize uint32
		for a.Next() {
			switch a.Type() {
			case unix.NFTA_SET_NAME:
				name = a.Text()
			case unix.NFTA_SET_FLAGS:
				flags = a.U32BE()
			case unix.NFTA_SET_KEY_TYPE:
				typ = a.U32BE()
			case unix.NFTA_SET_KEY_LEN:
				size = a.U32BE()
			case unix.NFTA_SET_DATA_TYPE:
				dataType = a.U32BE()
			case unix.NFTA_SET_DATA_LEN:
				dataSize = a.U32BE()
			}
		}
		family, spec, ok := t.names.SetSpec(name)
		if !ok {
			return a.Err()
		}
		s, shape := kernel.Set{Name: name, Type: spec.Type, Family: f}, shapes[spec.Type]
		if spec.Type != kernel.BitmapPort {
			s.MaxElem = math.MaxUint32
		}
		if family != f || flags != shape.flags() || typ != keyType(shape.fields, f) ||
			size != uint32(keySize(shape.fields, f)) || dataType != shape.dataType(f) ||
			shape.to != nil && dataSize != shape.dataSize(f) {
			s.Type = changed
		}
		all = append(all, s)
		return a.Err()
	})
	return all, err
}

// elements appends the entries of a set, sorted. The kernel lists them in the order of its hash. A set with an element
// that is no entry gets another type.
func (t *Table) elements(s *kernel.Set, all []kernel.Entry) ([]kernel.Entry, error) {
	if s.Type == changed {
		return all, nil
	}
	start, odd := len(all), false
	err := t.eachElement(*s, func() { all, odd = all[:start], false }, func(e kernel.Entry, ok bool) {
		all, odd = append(all, e), odd || !ok
	})
	if odd {
		s.Type = changed
		return all[:start], err
	}
	slices.SortFunc(all[start:], compareMembers)
	return all, err
}

// sameElements reports whether a set has these entries.
func (t *Table) sameElements(s kernel.Set, want []kernel.Entry) (bool, error) {
	if t.full {
		return slices.Equal(t.last.entries.Of(s.Name), want), nil
	}
	same, n := true, 0
	err := t.eachElement(s, func() { same, n = true, 0 }, func(e kernel.Entry, ok bool) {
		i, found := sort.Find(len(want), func(i int) int {
			if w := &want[i]; e.Addr != w.Addr { // mostly: a comparison of all copies both
				return e.Addr.Compare(w.Addr)
			}
			return e.Compare(want[i])
		})
		same = same && ok && found && want[i] == e
		n++
	})
	return same && n == len(want), err
}

// eachElement lists the elements of a set. ok is false for one that is no entry.
func (t *Table) eachElement(s kernel.Set, restart func(), each func(e kernel.Entry, ok bool)) error {
	shape, chains := shapes[s.Type], make(map[string]string)
	ask := func(b *nl.Batch) {
		b.Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.names.Table())
		b.Text(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
	}
	return t.dump(unix.NFT_MSG_GETSETELEM, s.Family, ask, restart, func(a nl.Attrs) error {
		for a.Next() {
			if a.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			list := a.Nested()
			for list.Next() {
				e, ok, err := shape.decode(list.Nested(), s.Family, chains)
				if err != nil {
					return err
				}
				e.Set = s.Name
				each(e, ok)
			}
			if list.Err() != nil {
				return list.Err()
			}
		}
		return a.Err()
	})
}

// compareMembers is kernel.Entry.Compare for entries of one set, most of which differ in their addresses.
func compareMembers(a, b kernel.Entry) int {
	if a.Addr != b.Addr {
		return a.Addr.Compare(b.Addr)
	}
	return a.Compare(b)
}

// chains lists our chains of a family with their rules.
func (t *Table) chains(f kernel.Family, dormant bool) (all []kernel.Chain, err error) {
	table := t.names.Table()
	rules := make(map[string][]string) // by chain
	ask := func(b *nl.Batch) { b.Text(unix.NFTA_CHAIN_TABLE, table) }
	err = t.dump(unix.NFT_MSG_GETCHAIN, f, ask, func() { all, rules = nil, make(map[string][]string) },
		func(a nl.Attrs) error {
			name, at, policy, in, err := headOf(a)
			kind, chain, ok := cutChain(name)
			c := kernel.Chain{Family: f, Table: kind, Name: chain}
			if in != table || !ok || !c.BuiltIn() && !t.names.OwnsChain(kind, chain) {
				return err
			}
			all, rules[name] = append(all, c), nil
			switch want, ok := hooks[kind][chain]; {
			case ok && (at != want || policy != accept):
				rules[name] = []string{misplaced}
			case ok && dormant:
				rules[name] = []string{unread}
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
