package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Advance gives the reading that follows when ops of a plan have been carried out,
// so that a small change needs no new reading. It reports false where only the
// kernel can tell all of it: a set was replaced, our device renamed. The counts of
// connections are left out: they
// would be those of the last reading. Nothing is written in have's slices.
func Advance(have kernel.Observed, ops []kernel.Op) (kernel.Observed, bool) {
	return advance(have, kernel.State{}, ops)
}

// Applied is Advance after all of a plan, that was made for want. What is wanted is
// there then, and where nothing else is, the reading has want's own slice: that costs
// nothing, however much was done, and takes no memory.
func Applied(have kernel.Observed, want kernel.State, p kernel.Plan) (kernel.Observed, bool) {
	if want.Policy.Hold || len(p.Conflicts)+len(p.Held)+len(p.Probes)+len(p.Taken) > 0 { // not all of it is there
		return Advance(have, p.Ops)
	}
	return advance(have, want, p.Ops)
}

// advance carries ops out on a reading. Where it comes to as many objects of a kind
// as want has, they are the wanted ones: all of want's are there.
func advance(have kernel.Observed, want kernel.State, ops []kernel.Op) (kernel.Observed, bool) {
	s := sortOut(ops)
	links := s.kinds[kernel.KindLink]
	replaced := s.kinds[kernel.KindSwap].n > 0 || links.n > 0 && links.grown == 0 ||
		slices.ContainsFunc(s.of(kernel.KindSet), func(o kernel.Op) bool { return o.Verb == kernel.Remove })
	have.Conns, have.Fresh = nil, false
	followParameters(&have, s.of(kernel.KindSysctl), s.of(kernel.KindTimeouts))
	have.Reals = withoutVirtuals(have.Reals, s.of(kernel.KindVirtual))
	for k, row := range kernel.Rows {
		switch of := s.kinds[k]; {
		case row.Objects == nil:
		case row.Shared && row.Objects.Len(have.State)+of.grown == row.Objects.Len(want):
			row.Objects.Share(&have.State, want)
		default:
			row.Objects.Follow(&have.State, s.of(kernel.Kind(k)))
		}
	}
	if s.kinds[kernel.KindSet].n > 0 {
		for i := range have.Sets {
			have.Sets[i].Size = 0 // no reading has it
		}
	}
	return have, !replaced
}

// sorted are ops that can be asked for by the kind of their objects.
type sorted struct {
	ops   []kernel.Op
	kinds [kernel.NumKinds]struct {
		n        int // ops of the kind
		from, to int // in ops, that they are between
		grown    int // objects more by them
	}
}

func sortOut(ops []kernel.Op) sorted {
	s := sorted{ops: ops}
	for i, o := range ops {
		k := &s.kinds[o.Object.Kind()]
		if k.n == 0 {
			k.from = i
		}
		k.n, k.to = k.n+1, i+1
		switch o.Verb {
		case kernel.Add:
			k.grown++
		case kernel.Remove:
			k.grown--
		}
	}
	return s
}

// of gives the ops of a kind, in their order.
func (s *sorted) of(kind kernel.Kind) []kernel.Op {
	k := &s.kinds[kind]
	between := s.ops[k.from:k.to]
	if k.n == len(between) {
		return between
	}
	some := make([]kernel.Op, 0, k.n)
	for _, o := range between {
		if o.Object.Kind() == kind {
			some = append(some, o)
		}
	}
	return some
}

// withoutVirtuals leaves out the real servers of virtual servers that ops remove.
func withoutVirtuals(reals []kernel.Real, ops []kernel.Op) []kernel.Real {
	gone := make(map[kernel.VirtualKey]bool)
	for _, o := range ops {
		if o.Verb == kernel.Remove {
			gone[o.Object.(kernel.Virtual).Key] = true
		}
	}
	if len(gone) == 0 {
		return reals
	}
	return keep(reals, func(r kernel.Real) bool { return !gone[r.Key.Virtual] })
}

// followParameters follows ops on sysctls and on IPVS's timeouts in what these were
// before us.
func followParameters(o *kernel.Observed, sysctls, timeouts []kernel.Op) {
	o.Saved = slices.Clone(o.Saved)
	for _, op := range sysctls {
		was, _ := op.Was.(kernel.Sysctl)
		save(o, op.Object.(kernel.Sysctl), was.Value)
	}
	for _, op := range timeouts {
		to := op.Object.(kernel.Timeouts)
		for _, p := range to.Parameters() {
			save(o, p, strconv.FormatUint(uint64(*o.Timeouts.Field(p.Name)), 10))
		}
		o.Timeouts = to.Over(o.Timeouts)
	}
}

// save notes what a parameter was before it was changed, as whoever carries the
// op out does, and forgets one that is what it was; before is "" where the op
// does not tell.
func save(o *kernel.Observed, s kernel.Sysctl, before string) {
	i, saved := slices.BinarySearchFunc(o.Saved, s.Name, func(p kernel.Saved, name string) int { return strings.Compare(p.Name, name) })
	switch {
	case saved && o.Saved[i].Before == s.Value:
		o.Saved = slices.Delete(o.Saved, i, i+1)
	case saved:
		o.Saved[i].Ours = s.Value
	case before != "" && before != s.Value:
		o.Saved = slices.Insert(o.Saved, i, kernel.Saved{Name: s.Name, Before: before, Ours: s.Value})
	}
}
