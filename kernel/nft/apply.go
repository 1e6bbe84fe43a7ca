package nft

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// transact carries out all ops or none. Their order does not matter. What goes is taken away first: rules, then
// entries, sets and chains.
func (t *Table) transact(ops []kernel.Op) []error {
	errs := t.commit(ops)
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, kernel.ErrNotDone) })
	switch {
	case i < 0:
	case errors.Is(errs[i], unix.ENOENT) && isEntry(ops[i], kernel.Remove):
		return t.applyPresent(ops, errs)
	}
	return errs
}

// wake switches tables on, in a transaction of its own: the kernel adds no base chain in the same one. An error shows
// in what follows.
func (t *Table) wake() {
	b := new(nl.Batch)
	limit(b, unix.NFNL_MSG_BATCH_BEGIN)
	for _, f := range families {
		if there, err := t.present(f); there && err == nil {
			putTable(b, t.table, f)
		}
	}
	limit(b, unix.NFNL_MSG_BATCH_END)
	t.last.dormant = t.conn.Commit(b, nil) != nil
}

// putTable adds the message that creates a table unless it is there, and switches it on.
func putTable(b *nl.Batch, table string, f kernel.Family) {
	begin(b, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, f)
	b.Text(unix.NFTA_TABLE_NAME, table)
	b.U32BE(unix.NFTA_TABLE_FLAGS, 0)
	b.End()
}

func isEntry(o kernel.Op, v kernel.Verb) bool {
	return o.Verb == v && o.Object.Kind() == kernel.KindEntry
}

// applyPresent carries out ops without those that remove entries which are not there. refused is the result of the
// first try.
func (t *Table) applyPresent(ops []kernel.Op, refused []error) []error {
	r, err := t.read(true)
	if err != nil {
		return refused
	}
	t.forget()
	var there []kernel.Op
	var places []int
	for i, op := range ops {
		if !isEntry(op, kernel.Remove) || r.entries.Has(op.Object.(kernel.Entry)) {
			there, places = append(there, op), append(places, i)
		}
	}
	failed := t.commit(there)
	if failed == nil {
		return nil
	}
	errs := make([]error, len(ops))
	for i, err := range failed {
		errs[places[i]] = err
	}
	return errs
}

// commit sends the transaction.
func (t *Table) commit(ops []kernel.Op) []error {
	if len(ops) == 0 {
		return nil
	}
	x := transaction{names: t.names, table: t.table, limits: t.limits, ops: ops}
	if x.emptied, x.err = t.emptied(ops); x.err == nil {
		x.build()
	}
	if x.err != nil {
		return x.refuse([]int32{int32(x.bad)}, x.err)
	}
	err := t.send(&x)
	if err == nil {
		return nil
	}
	var failed *nl.BatchError
	if !errors.As(err, &failed) {
		return x.refuse(nil, fmt.Errorf("%w: %w", kernel.ErrUnknownOutcome, err))
	}
	m := failed.Messages[0]
	return x.refuse(x.blamed(m), m.Err)
}

// send commits a transaction, and keeps what slots and rules counted that it removes.
func (t *Table) send(x *transaction) error {
	if !x.echoes {
		return t.conn.Commit(&x.batch, nil)
	}
	t.ended.mu.Lock()
	defer t.ended.mu.Unlock()
	return t.conn.Commit(&x.batch, t.ended.add)
}

// emptied returns the families whose tables have nothing that the ops do not remove: the tables go, too.
func (t *Table) emptied(ops []kernel.Op) (all []kernel.Family, err error) {
	for _, f := range families {
		gone := make(map[string]bool)
		for i := range ops {
			switch o := ops[i].Object.(type) {
			case kernel.Set:
				if o.Family == f {
					gone[o.Name] = ops[i].Verb == kernel.Remove
				}
			case kernel.Chain:
				if o.Family == f {
					gone[chainName(o.Table, o.Name)] = ops[i].Verb == kernel.Remove
				}
			}
		}
		if len(gone) == 0 || slices.Contains(slices.Collect(maps.Values(gone)), false) {
			continue
		}
		left, err := t.left(f, gone)
		if err != nil {
			return nil, err
		}
		if !left {
			all = append(all, f)
		}
	}
	return all, nil
}

// left reports whether our table of a family has a set or chain that is not to go, or lacks one.
func (t *Table) left(f kernel.Family, gone map[string]bool) (bool, error) {
	table, names := t.table, []string{}
	collect := func(inTable, name uint16) func(nl.Attrs) error {
		return func(a nl.Attrs) error {
			var in, own string
			for a.Next() {
				switch a.Type() {
				case inTable:
					in = a.Text()
				case name:
					own = a.Text()
				}
			}
			if in == table && own != classes(t.names, f) {
				names = append(names, own)
			}
			return a.Err()
		}
	}
	ask := func(b *nl.Batch) { b.Text(unix.NFTA_SET_TABLE, table) } // the number of NFTA_CHAIN_TABLE, too
	restart := func() { names = names[:0] }
	err := t.dump(unix.NFT_MSG_GETSET, f, ask, restart, collect(unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME))
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, err
	}
	sets := len(names)
	restart = func() { names = names[:sets] }
	err = t.dump(unix.NFT_MSG_GETCHAIN, f, ask, restart, collect(unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME))
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, err
	}
	return len(names) != len(gone) || slices.ContainsFunc(names, func(name string) bool { return !gone[name] }), nil
}
