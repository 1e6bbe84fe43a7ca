package kernel

import (
	"slices"
	"strconv"
	"strings"
)

// Advance gives the reading that follows when ops of a plan have been carried out,
// so that a small change needs no new reading. It reports false where only the
// kernel can tell all of it: a set was replaced, our device renamed. The counts of
// connections are left out: they
// would be those of the last reading. Nothing is written in have's slices.
func Advance(have Observed, ops []Op) (Observed, bool) {
	return advance(have, State{}, ops)
}

// Settle is Advance after all of a plan, that was made for want. What is wanted is
// there then, and where nothing else is, the reading has want's own slice: that costs
// nothing, however much was done, and takes no memory.
func Settle(have Observed, want State, p Plan) (Observed, bool) {
	if want.Policy.Hold || len(p.Conflicts)+len(p.Held)+len(p.Probes)+len(p.Taken) > 0 { // not all of it is there
		return Advance(have, p.Ops)
	}
	now, ok := advance(have, want, p.Ops)
	if ok {
		now.Settled = &want
	}
	return now, ok
}

// advance carries ops out on a reading. Where it comes to as many objects of a kind
// as want has, they are those: all of want's are there.
func advance(have Observed, want State, ops []Op) (Observed, bool) {
	s := sortOut(ops)
	replaced := s.kinds[KindSwap].n > 0 || s.kinds[KindLink].n > 0 && s.kinds[KindLink].grown == 0 || slices.ContainsFunc(s.of(KindSet), func(o Op) bool { return o.Verb == Remove })
	have.Conns, have.Fresh, have.Settled = nil, false, nil
	have.followParameters(s.of(KindSysctl), s.of(KindTimeouts))
	have.Sysctls = follow(&s, have.Sysctls, nil, compareSysctl)
	have.Sets = follow(&s, have.Sets, nil, compareSet)
	if s.kinds[KindSet].n > 0 {
		for i := range have.Sets {
			have.Sets[i].Size = 0 // no reading has it
		}
	}
	have.Entries = follow(&s, have.Entries, want.Entries, Entry.Compare)
	have.Chains = follow(&s, have.Chains, nil, compareChain)
	have.Links = follow(&s, have.Links, nil, compareLink)
	have.Virtuals = follow(&s, have.Virtuals, want.Virtuals, compareVirtual)
	have.Reals = follow(&s, withoutVirtuals(have.Reals, s.of(KindVirtual)), want.Reals, compareReal)
	have.Addrs = follow(&s, have.Addrs, want.Addrs, compareAddr)
	have.Routes = follow(&s, have.Routes, want.Routes, compareRoute)
	have.Neighbors = follow(&s, have.Neighbors, nil, compareNeighbor)
	return have, !replaced
}

// sorted are ops that can be asked for by the kind of their objects.
type sorted struct {
	ops   []Op
	kinds [numKinds]struct {
		n        int // ops of the kind
		from, to int // in ops, that they are between
		grown    int // objects more by them
	}
}

func sortOut(ops []Op) sorted {
	s := sorted{ops: ops}
	for i, o := range ops {
		k := &s.kinds[o.Object.Kind()]
		if k.n == 0 {
			k.from = i
		}
		k.n, k.to = k.n+1, i+1
		switch o.Verb {
		case Add:
			k.grown++
		case Remove:
			k.grown--
		}
	}
	return s
}

// of gives the ops of a kind, in their order.
func (s *sorted) of(kind Kind) []Op {
	k := &s.kinds[kind]
	between := s.ops[k.from:k.to]
	if k.n == len(between) {
		return between
	}
	some := make([]Op, 0, k.n)
	for _, o := range between {
		if o.Object.Kind() == kind {
			some = append(some, o)
		}
	}
	return some
}

// follow carries the ops of a kind out on a sorted slice, and gives another. No two
// of them are about one object, but for a chain that goes and comes again.
func follow[T Object](s *sorted, have, want []T, compare func(a, b T) int) []T {
	var zero T
	n := len(have) + s.kinds[zero.Kind()].grown
	if n == len(want) {
		return want
	}
	ops := s.of(zero.Kind())
	if len(ops) == 0 {
		return have
	}
	order := func(a, b Op) int { return compare(a.Object.(T), b.Object.(T)) }
	if !slices.IsSortedFunc(ops, order) { // a plan has those of one phase in order
		ops = slices.Clone(ops)
		slices.SortStableFunc(ops, order)
	}
	now := make([]T, 0, max(n, 0))
	for i, o := range ops {
		v := o.Object.(T)
		before := 0 // of have, that come before it; mostly none where there are many ops
		if len(have) > 0 && compare(have[0], v) < 0 {
			before, _ = slices.BinarySearchFunc(have, v, compare)
		}
		now = append(now, have[:before]...)
		have = have[before:]
		if len(have) > 0 && compare(have[0], v) == 0 {
			have = have[1:]
		}
		last := i+1 == len(ops) || compare(ops[i+1].Object.(T), v) != 0
		if o.Verb != Remove && last {
			now = append(now, v)
		}
	}
	return append(now, have...)
}

// withoutVirtuals leaves out the real servers of virtual servers that ops remove.
func withoutVirtuals(reals []Real, ops []Op) []Real {
	gone := make(map[VirtualKey]bool)
	for _, o := range ops {
		if o.Verb == Remove {
			gone[o.Object.(Virtual).Key] = true
		}
	}
	if len(gone) == 0 {
		return reals
	}
	return keep(reals, func(r Real) bool { return !gone[r.Key.Virtual] })
}

// followParameters follows ops on sysctls and on IPVS's timeouts in what these were
// before us.
func (o *Observed) followParameters(sysctls, timeouts []Op) {
	o.Saved = slices.Clone(o.Saved)
	for _, op := range sysctls {
		was, _ := op.Was.(Sysctl)
		o.save(op.Object.(Sysctl), was.Value)
	}
	for _, op := range timeouts {
		to := op.Object.(Timeouts)
		for _, p := range to.Parameters() {
			o.save(p, strconv.FormatUint(uint64(*o.Timeouts.field(p.Name)), 10))
		}
		o.Timeouts = to.Over(o.Timeouts)
	}
}

// save notes what a parameter was before it was changed, as whoever carries the
// op out does, and forgets one that is what it was; before is "" where the op
// does not tell.
func (o *Observed) save(s Sysctl, before string) {
	i, saved := slices.BinarySearchFunc(o.Saved, s.Name, func(p Saved, name string) int { return strings.Compare(p.Name, name) })
	switch {
	case saved && o.Saved[i].Before == s.Value:
		o.Saved = slices.Delete(o.Saved, i, i+1)
	case saved:
		o.Saved[i].Ours = s.Value
	case before != "" && before != s.Value:
		o.Saved = slices.Insert(o.Saved, i, Saved{Name: s.Name, Before: before, Ours: s.Value})
	}
}
