package plan

import "github.com/svcproxy/svcproxy/kernel"

// Repairs returns the ops of a plan that undo what another program changed. done is the kernel as the plans that were
// carried out left it, have the reading that the plan was made from. An op is a repair if its object is not in have as
// it is in done, and the op makes it so. What is wanted for the first time, or failed before, is in no done. An object
// that another program changed and that is wanted otherwise by now is no repair, nor is a tracked connection.
func Repairs(done, have kernel.State, ops []kernel.Op) (repairs []kernel.Op) {
	for _, op := range ops {
		if isRepair(&done, &have, op) {
			repairs = append(repairs, op)
		}
	}
	return repairs
}

func isRepair(done, have *kernel.State, op kernel.Op) bool {
	switch o := op.Object.(type) {
	case kernel.Flow:
		return false
	case kernel.Timeouts:
		return have.Timeouts != done.Timeouts && o.Over(have.Timeouts) == done.Timeouts
	case kernel.Swap: // it replaces a set that exists
		return isRepair(done, have, kernel.Op{Verb: kernel.Change, Object: kernel.Set{Name: o.To}})
	case kernel.Set: // its capacity and type are as they are needed now
		was, is := kernel.Rows[kernel.KindSet].Objects.Find(*done, o), kernel.Rows[kernel.KindSet].Objects.Find(*have, o)
		return (was == nil) == (op.Verb == kernel.Remove) && !sameObject(was, is)
	}
	objects := kernel.Rows[op.Object.Kind()].Objects
	was, is := objects.Find(*done, op.Object), objects.Find(*have, op.Object)
	becomes := op.Object
	if op.Verb == kernel.Remove {
		becomes = nil
	}
	return !sameObject(was, is) && sameObject(was, becomes)
}

// sameObject compares two objects with the same key, nil for one that does not exist.
func sameObject(a, b kernel.Object) bool {
	switch v := a.(type) {
	case kernel.Chain:
		w, ok := b.(kernel.Chain)
		return ok && kernel.SameRules(v.Rules, w.Rules)
	case kernel.OtherChain:
		w, ok := b.(kernel.OtherChain)
		return ok && kernel.SameRules(v.Rules, w.Rules)
	case kernel.Set:
		w, ok := b.(kernel.Set)
		v.References, v.Size, w.References, w.Size = 0, 0, 0, 0
		return ok && v == w
	}
	return a == b
}
