package nft

import (
	"fmt"

	"github.com/svcproxy/svcproxy/kernel"
)

// A packet meets the rules that were there when it entered the base chain, but in each map what is there by then: the
// kernel reads the number of the generation again for each look-up. So a commit is not one moment for packets on other
// processors. When a frontend went to fewer slots in the commit that removed the last one, 3 of 34,000 new connections
// during 8,500 changes found no slot and were refused.

// steps returns the places of ops by the transaction that they belong to: chains that existing elements are to lead to,
// then everything else, then what is removed in the end. Flowtables come first: a link that is gone by now makes the
// kernel refuse a transaction.
func steps(ops []kernel.Op, n kernel.Names) (all [][]int) {
	gone := len(ops)
	for gone > 0 && ops[gone-1].Verb == kernel.Remove && !isNetwork(ops[gone-1]) {
		gone--
	}
	if gone == 0 {
		gone = len(ops)
	}
	led := make(map[kernel.Chain]bool)
	for i := range ops[:gone] {
		if e, ok := ops[i].Object.(kernel.Entry); ok && ops[i].Verb == kernel.Change && e.Goto != "" {
			family, _, _ := n.SetSpec(e.Set)
			led[kernel.Chain{Family: family, Table: n.GotoTable(e.Set), Name: e.Goto}] = true
		}
	}
	parts := [4][]int{}
	for i := range ops {
		at := 2
		c, ok := ops[i].Object.(kernel.Chain)
		switch {
		case i >= gone:
			at = 3
		case writesFlowtable(ops[i]):
			at = 0
		case ok && ops[i].Verb == kernel.Add && led[kernel.Chain{Family: c.Family, Table: c.Table, Name: c.Name}]:
			at = 1
		}
		parts[at] = append(parts[at], i)
	}
	for _, part := range parts {
		if len(part) > 0 {
			all = append(all, part)
		}
	}
	return all
}

// isNetwork reports whether an op is on an entry of a list of networks. One that goes may contain one that comes.
func isNetwork(o kernel.Op) bool {
	e, ok := o.Object.(kernel.Entry)
	return ok && e.IsNet()
}

// Apply carries out ops: kernel.Set (Add, Remove), kernel.Entry (Add, Change, Remove), kernel.Flowtable and
// kernel.Chain. The result has one error for each op and is nil if all were carried out. What steps puts together is
// carried out together, or not at all; after an error nothing that comes later is. Flowtables are written link by link,
// and nothing waits for those.
//
// Removing an entry that is not there is no error, nor is adding one that is.
func (t *Table) Apply(ops []kernel.Op) []error {
	t.forget()
	if t.last.dormant {
		t.wake()
	}
	all := steps(ops, t.names)
	if len(all) == 1 && !writesFlowtable(ops[0]) {
		return t.transact(ops)
	}
	var errs []error
	refused := false
	for _, places := range all {
		part := make([]kernel.Op, len(places))
		for k, i := range places {
			part[k] = ops[i]
		}
		var failed []error
		switch {
		case writesFlowtable(part[0]):
			failed = t.writeFlowtables(part)
		case !refused:
			failed = t.transact(part)
			refused = failed != nil
		}
		if failed != nil && errs == nil {
			errs = make([]error, len(ops))
		}
		for k, i := range places {
			switch {
			case failed != nil:
				errs[i] = failed[k]
			case refused:
				errs[i] = fmt.Errorf("%w: an earlier one was refused", kernel.ErrNotDone)
			}
		}
	}
	return errs
}
