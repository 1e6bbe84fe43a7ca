package fake

import (
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

func inTransaction(k kernel.Kind) bool {
	return k == kernel.KindSet || k == kernel.KindEntry || k == kernel.KindSwap || k == kernel.KindChain ||
		k == kernel.KindFlowtable
}

func oneTransaction(a, b kernel.Kind) bool { return inTransaction(a) && inTransaction(b) }

// transact carries out all ops or none. One that is refused has its error, all others kernel.ErrNotDone.
func (k *Kernel) transact(ops []kernel.Op) []error {
	before, writes := k.state.Clone(), k.writes
	after := k.After
	k.After = nil // of what may be undone
	order := order(ops)
	bad, err := k.inOrder(order)
	k.After = after
	if err != nil {
		k.state, k.writes = before, writes
		errs := slices.Repeat([]error{fmt.Errorf("%w: %s: %w", kernel.ErrNotDone, order[bad], err)}, len(ops))
		errs[slices.Index(ops, order[bad])] = err
		return errs
	}
	if after != nil {
		for _, o := range ops {
			after(o)
		}
	}
	return nil
}

// order returns the ops with entries that lead to chains after the last chain that is written: in a transaction their
// order does not matter.
func order(ops []kernel.Op) []kernel.Op {
	isWritten := func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindChain && o.Verb != kernel.Remove }
	last := len(ops) - 1
	for last >= 0 && !isWritten(ops[last]) {
		last--
	}
	var first, late []kernel.Op
	for _, o := range ops[:last+1] {
		if e, ok := o.Object.(kernel.Entry); ok && e.Goto != "" && o.Verb != kernel.Remove {
			late = append(late, o)
		} else {
			first = append(first, o)
		}
	}
	return slices.Concat(first, late, ops[last+1:])
}

// inOrder carries out ops up to the first that is refused, and returns its place.
func (k *Kernel) inOrder(ops []kernel.Op) (bad int, err error) {
	for i := 0; i < len(ops); {
		end := i + 1
		if ops[i].Object.Kind() != kernel.KindChain {
			err = k.do(ops[i])
		} else {
			for end < len(ops) && ops[end].Object.Kind() == kernel.KindChain {
				end++
			}
			bad, err = k.writeChains(ops[i:end])
		}
		if err != nil {
			return i + bad, err
		}
		i = end
	}
	return 0, nil
}

// writeChains is restore, but names the first op that is refused and undoes nothing.
func (k *Kernel) writeChains(ops []kernel.Op) (bad int, err error) {
	for i := range ops {
		if err := k.rewrite(ops[i : i+1]); err != nil {
			return i, err
		}
	}
	errs := make([]error, len(ops))
	k.unlink(ops, errs)
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return i, errs[i]
	}
	for i, o := range ops {
		if c, ok := k.find(o.Object).(kernel.Chain); ok {
			if err := k.checkChain(&c); err != nil {
				return i, err
			}
		}
	}
	k.writes += len(ops)
	return 0, k.check()
}
