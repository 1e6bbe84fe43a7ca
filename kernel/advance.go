package kernel

import (
	"slices"
	"strconv"
	"strings"
)

// Advance gives the reading that follows when every op of a plan has been
// carried out, so that a small change needs no new reading. It reports false
// where only the kernel can tell (a set was replaced); have is then unusable.
// It works in place: have must not be used afterwards. Counts of connections
// are those of the last reading and no longer Fresh.
func Advance(have Observed, ops []Op) (Observed, bool) {
	if len(have.Conns) != len(have.Reals) {
		have.Conns = make([]Conns, len(have.Reals))
	}
	have.Fresh, have.Settled = false, nil
	for kind, group := range groupOps(ops) {
		ok := true
		switch Kind(kind) {
		case KindSysctl:
			for _, op := range group {
				was, _ := op.Was.(Sysctl)
				have.save(op.Object.(Sysctl), was.Value)
			}
			have.Sysctls = follow(have.Sysctls, group, compareSysctl)
		case KindSet:
			ok = !slices.ContainsFunc(group, func(o Op) bool { return o.Verb == Remove })
			have.Sets = follow(have.Sets, group, compareSet)
		case KindEntry:
			have.Entries = follow(have.Entries, group, Entry.Compare)
		case KindSwap:
			ok = len(group) == 0
		case KindChain:
			have.Chains = follow(have.Chains, group, compareChain)
		case KindLink:
			have.Links = follow(have.Links, group, compareLink)
		case KindVirtual:
			have.Virtuals = follow(have.Virtuals, group, compareVirtual)
			have.dropReals(group)
		case KindReal:
			have.followReals(group)
		case KindAddr:
			have.Addrs = follow(have.Addrs, group, compareAddr)
		case KindRoute:
			have.Routes = follow(have.Routes, group, compareRoute)
		case KindNeighbor:
			have.Neighbors = follow(have.Neighbors, group, compareNeighbor)
		case KindTimeouts:
			have.followTimeouts(group)
		}
		if !ok {
			return have, false
		}
	}
	return have, true
}

// groupOps sorts ops by the kind of their objects; within one kind they keep
// their order.
func groupOps(ops []Op) [numKinds][]Op {
	var sizes [numKinds]int
	for _, o := range ops {
		sizes[o.Object.Kind()]++
	}
	var groups [numKinds][]Op
	for kind, n := range sizes {
		groups[kind] = make([]Op, 0, n)
	}
	for _, o := range ops {
		groups[o.Object.Kind()] = append(groups[o.Object.Kind()], o)
	}
	return groups
}

// fewOps are carried out one by one, in place; more by one merge.
const fewOps = 32

// follow carries ops out on a sorted slice. No two ops are about one object,
// but for a chain that goes and comes again.
func follow[T Object](s []T, ops []Op, compare func(a, b T) int) []T {
	if len(ops) <= fewOps {
		for _, o := range ops {
			v := o.Object.(T)
			i, found := slices.BinarySearchFunc(s, v, compare)
			switch {
			case found && o.Verb == Remove:
				s = slices.Delete(s, i, i+1)
			case found:
				s[i] = v
			case o.Verb != Remove:
				s = slices.Insert(s, i, v)
			}
		}
		return s
	}
	order := func(a, b Op) int { return compare(a.Object.(T), b.Object.(T)) }
	if !slices.IsSortedFunc(ops, order) { // a plan has those of one phase in order
		slices.SortStableFunc(ops, order)
	}
	merged := make([]T, 0, len(s)+len(ops))
	for i, o := range ops {
		v := o.Object.(T)
		for len(s) > 0 && compare(s[0], v) < 0 {
			merged = append(merged, s[0])
			s = s[1:]
		}
		if len(s) > 0 && compare(s[0], v) == 0 {
			s = s[1:]
		}
		last := i+1 == len(ops) || compare(ops[i+1].Object.(T), v) != 0
		if o.Verb != Remove && last {
			merged = append(merged, v)
		}
	}
	return append(merged, s...)
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

// followTimeouts is follow for IPVS's timeouts.
func (o *Observed) followTimeouts(ops []Op) {
	for _, op := range ops {
		to := op.Object.(Timeouts)
		for _, p := range to.Parameters() {
			o.save(p, strconv.FormatUint(uint64(*o.Timeouts.field(p.Name)), 10))
		}
		o.Timeouts = to.Over(o.Timeouts)
	}
}

// dropReals forgets the real servers of virtual servers that were removed.
func (o *Observed) dropReals(ops []Op) {
	gone := make(map[VirtualKey]bool)
	for _, op := range ops {
		if op.Verb == Remove {
			gone[op.Object.(Virtual).Key] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	kept := 0
	for i, r := range o.Reals {
		if !gone[r.Key.Virtual] {
			o.Reals[kept], o.Conns[kept] = r, o.Conns[i]
			kept++
		}
	}
	o.Reals, o.Conns = o.Reals[:kept], o.Conns[:kept]
}

// followReals is follow for real servers, with their connections beside them.
func (o *Observed) followReals(ops []Op) {
	if len(ops) == 0 {
		return
	}
	old, conns := o.Reals, o.Conns
	if len(ops) <= fewOps {
		for _, op := range ops {
			i, found := slices.BinarySearchFunc(old, op.Object.(Real), compareReal)
			switch {
			case found && op.Verb == Remove:
				conns = slices.Delete(conns, i, i+1)
			case !found && op.Verb != Remove:
				conns = slices.Insert(conns, i, Conns{})
			}
			old = follow(old, []Op{op}, compareReal)
		}
		o.Reals, o.Conns = old, conns
		return
	}
	o.Reals = follow(old, ops, compareReal)
	o.Conns = make([]Conns, len(o.Reals))
	j := 0
	for i, r := range o.Reals {
		for j < len(old) && old[j].Key.Compare(r.Key) < 0 {
			j++
		}
		if j < len(old) && old[j].Key == r.Key {
			o.Conns[i] = conns[j]
		}
	}
}
