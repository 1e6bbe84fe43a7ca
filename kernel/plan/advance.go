package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Advance returns the reading after ops of a plan were carried out, so that a small
// change needs no new reading. It returns false if only the kernel can tell: a set was
// removed, or our device renamed. The counts of connections are left out, since they
// are old. It does not write in have's slices.
func Advance(have kernel.Observed, ops []kernel.Op) (kernel.Observed, bool) {
	return advance(have, kernel.State{}, ops)
}

// Applied is Advance after a whole plan for want was carried out. The wanted objects
// exist then. If there are no others of a kind, the reading uses want's own slice, which
// takes no time and no memory.
func Applied(have kernel.Observed, want kernel.State, p kernel.Plan) (kernel.Observed, bool) {
	if want.Policy.Hold || len(p.Conflicts)+len(p.Held)+len(p.Probes)+len(p.Taken) > 0 { // not everything wanted exists
		return Advance(have, p.Ops)
	}
	if p.RoundRobin { // not every virtual server is as want has it
		want.Virtuals = nil
	}
	return advance(have, want, p.Ops)
}

// advance carries ops out on a reading. If that gives as many objects of a shared kind
// as want has, they are want's: all of these exist.
func advance(have kernel.Observed, want kernel.State, ops []kernel.Op) (kernel.Observed, bool) {
	s := sortOut(ops)
	if s.kinds[kernel.KindSwap].n > 0 {
		s = sortOut(inPlace(ops))
	}
	links := s.kinds[kernel.KindLink]
	replaced := s.kinds[kernel.KindSwap].n > 0 || links.n > 0 && links.grown == 0 ||
		slices.ContainsFunc(s.of(kernel.KindSet), func(o kernel.Op) bool { return o.Verb == kernel.Remove }) ||
		len(have.OtherSets) > 0 && s.kinds[kernel.KindOtherChain].n > 0
	have.Conns, have.Fresh = nil, false
	followParameters(&have, s.of(kernel.KindSysctl), s.of(kernel.KindTimeouts))
	followDaemons(&have, s.of(kernel.KindDaemon))
	have.InIPVS = withoutMoved(have.InIPVS, s.of(kernel.KindVirtual))
	gone := realsOfRemoved(have.Reals, s.of(kernel.KindVirtual))
	s.kinds[kernel.KindReal].grown -= len(gone)
	have.Entries = withoutSets(have.Entries, s.of(kernel.KindSet))
	for k := range kernel.Rows {
		row := &kernel.Rows[k]
		switch of := s.kinds[k]; {
		case row.Objects == nil || of.n == 0 && !row.Shared:
		case row.Shared && row.Objects.Len(have.State)+of.grown == row.Objects.Len(want):
			row.Objects.Share(&have.State, want)
		default:
			if kernel.Kind(k) == kernel.KindReal && len(gone) > 0 {
				have.Reals = have.Reals.With(gone, nil)
			}
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

// Follow returns a state as it is after ops on a kernel that may differ from it. Objects that the ops do not name stay.
func Follow(done kernel.State, ops []kernel.Op) kernel.State {
	s := sortOut(inPlace(ops))
	done.Entries = withoutSets(done.Entries, s.of(kernel.KindSet))
	done.Reals = done.Reals.With(realsOfRemoved(done.Reals, s.of(kernel.KindVirtual)), nil)
	for _, op := range s.of(kernel.KindTimeouts) {
		done.Timeouts = op.Object.(kernel.Timeouts).Over(done.Timeouts)
	}
	for k := range kernel.Rows {
		if objects := kernel.Rows[k].Objects; objects != nil {
			objects.Follow(&done, s.of(kernel.Kind(k)))
		}
	}
	return done
}

// withoutSets drops the entries of sets that ops remove.
func withoutSets(entries kernel.Entries, ops []kernel.Op) kernel.Entries {
	for _, op := range ops {
		if op.Verb == kernel.Remove {
			entries = entries.Where(func(e kernel.Entry) bool { return e.Set != op.Object.(kernel.Set).Name })
		}
	}
	return entries
}

// inPlace returns ops with each replacement of a set as a change of that set: it has the new one's capacity, and the
// entries that it had. A replacement that was not carried out to its end stays as it is.
func inPlace(ops []kernel.Op) []kernel.Op {
	replaces := map[string]string{} // by the name of a temporary set: the set that has its entries now
	ended := map[string]bool{}      // temporary sets that were removed after that
	for _, o := range ops {
		switch v := o.Object.(type) {
		case kernel.Swap:
			replaces[v.From] = v.To
		case kernel.Set:
			ended[v.Name] = o.Verb == kernel.Remove && replaces[v.Name] != ""
		}
	}
	now := make([]kernel.Op, 0, len(ops))
	made := map[string]bool{}
	for _, o := range ops {
		switch v := o.Object.(type) {
		case kernel.Swap:
			if ended[v.From] {
				continue
			}
		case kernel.Entry:
			if ended[v.Set] {
				continue
			}
		case kernel.Set:
			switch {
			case !ended[v.Name]:
			case o.Verb == kernel.Add:
				made[v.Name] = true
				v.Name = replaces[v.Name]
				o = kernel.Op{Verb: kernel.Change, Object: v}
			case made[v.Name]: // else it is what a crash left
				continue
			}
		}
		now = append(now, o)
	}
	return now
}

// sorted finds ops by the kind of their objects.
type sorted struct {
	ops   []kernel.Op
	kinds [kernel.NumKinds]struct {
		n        int // ops of the kind
		from, to int // the part of ops that has them
		grown    int // how many more objects there are afterwards
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

// of returns the ops of a kind in their order.
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

// realsOfRemoved returns the real servers of virtual servers that ops remove, sorted.
func realsOfRemoved(reals kernel.Reals, ops []kernel.Op) []kernel.Real {
	var each [][]kernel.Real
	for _, o := range ops {
		if o.Verb == kernel.Remove {
			each = append(each, reals.Of(o.Object.(kernel.Virtual).Key))
		}
	}
	gone := slices.Concat(each...)
	if !slices.IsSortedFunc(gone, kernel.Real.Compare) {
		slices.SortFunc(gone, kernel.Real.Compare)
	}
	return gone
}

// withoutMoved drops the virtual servers that ops move to the relay, or remove.
func withoutMoved(inIPVS []kernel.VirtualKey, ops []kernel.Op) []kernel.VirtualKey {
	if len(inIPVS) == 0 || len(ops) == 0 {
		return inIPVS
	}
	return keep(inIPVS, func(k kernel.VirtualKey) bool {
		return !slices.ContainsFunc(ops, func(o kernel.Op) bool { return o.Object.(kernel.Virtual).Key == k })
	})
}

// followParameters updates Saved and Timeouts after ops on sysctls and IPVS timeouts.
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

// followDaemons updates Saved after ops on daemons of connection sync.
func followDaemons(o *kernel.Observed, ops []kernel.Op) {
	for _, op := range ops { // Saved is a clone by now
		name := op.Object.(kernel.SyncDaemon).SavedName()
		o.Saved = slices.DeleteFunc(o.Saved, func(s kernel.Saved) bool { return s.Name == name })
		if op.Verb != kernel.Remove {
			i, _ := slices.BinarySearchFunc(o.Saved, name, func(s kernel.Saved, name string) int {
				return strings.Compare(s.Name, name)
			})
			o.Saved = slices.Insert(o.Saved, i, kernel.Saved{Name: name, Ours: op.Object.String()})
		}
	}
}

// save stores a parameter's value before it was changed, as the adapters do, and forgets
// a parameter that has its old value again. before is "" if the op does not have it.
func save(o *kernel.Observed, s kernel.Sysctl, before string) {
	i, saved := slices.BinarySearchFunc(o.Saved, s.Name, func(p kernel.Saved, name string) int {
		return strings.Compare(p.Name, name)
	})
	switch {
	case saved && o.Saved[i].Before == s.Value:
		o.Saved = slices.Delete(o.Saved, i, i+1)
	case saved:
		o.Saved[i].Ours = s.Value
	case before != "" && before != s.Value:
		o.Saved = slices.Insert(o.Saved, i, kernel.Saved{Name: s.Name, Before: before, Ours: s.Value})
	}
}
