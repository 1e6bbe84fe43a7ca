package plan

import (
	"errors"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// left returns the virtual servers that kube-proxy left: a first reading has them from the record.
func (d *differ) left() []kernel.Virtual {
	if d.have.Record.Left != nil {
		return d.have.Record.Left
	}
	return d.memory.Left
}

// remember returns the memory after the plan.
func (d *differ) remember() kernel.Memory {
	m := kernel.Memory{
		Owned: d.memory.Owned, Left: d.plan.Left, Drains: d.plan.Drains,
		Cut: d.want.Policy.Cut, Quiesced: d.want.Policy.Quiesced,
	}
	if !d.decided(kernel.Flow{}) {
		m.Quiesced = d.memory.Quiesced
	}
	return m
}

// After returns the memory after a plan was applied. before is the memory that the plan was made with, and then the one
// that Diff returned with it. Drains that the plan was to end by an op that failed go on, since only the memory of them
// tells the next plan to try again, and so do flows. err is what Apply returned.
func After(before, then kernel.Memory, p kernel.Plan, err error) kernel.Memory {
	if err == nil {
		return then
	}
	failed := undone(p.Ops, err)
	then.Cut, then.Unremoved = before.Cut, flowsOver(kernel.UDP, failed)
	ends := map[kernel.RealKey]bool{}
	for i := range failed {
		switch o := failed[i].Object.(type) {
		case kernel.Flow:
			ends[o.Key] = true
		case kernel.Real:
			ends[o.Key] = failed[i].Verb == kernel.Remove
		}
	}
	goOn := keep(before.Drains, func(x kernel.Drain) bool { return ends[x.Real] })
	if len(goOn) > 0 {
		then.Drains = sortedWith(then.Drains, goOn, func(a, b kernel.Drain) int { return a.Real.Compare(b.Real) })
	}
	return then
}

// undone returns the ops that failed. err is what Apply returned for them all.
func undone(ops []kernel.Op, err error) (failed []kernel.Op) {
	var each *kernel.ApplyError
	if !errors.As(err, &each) {
		return ops
	}
	for _, f := range each.Failed {
		failed = append(failed, f.Op)
	}
	return failed
}

// flowsOver returns the real servers whose flows over a protocol ops remove, sorted.
func flowsOver(proto kernel.Proto, ops []kernel.Op) (keys []kernel.RealKey) {
	for i := range ops {
		if f, ok := ops[i].Object.(kernel.Flow); ok && f.Key.Virtual.Proto == proto {
			keys = append(keys, f.Key)
		}
	}
	slices.SortFunc(keys, kernel.RealKey.Compare)
	return slices.Compact(keys)
}
