package kernel

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Diff finds what has to be done for the kernel to become as wanted: the ops
// in the order in which to do them. It changes nothing that is not ours.
//
// Both states are sorted, so that it walks them side by side; where they are
// equal it allocates nothing. The same input gives the same plan.
func Diff(want State, have Observed) Plan {
	d := differ{want: want, have: have}
	d.diffVirtuals()
	if d.plan.Conflicts != nil {
		d.want = want.without(d.plan.Conflicts, have.Names)
	}
	d.diffReals()
	d.diffSysctls()
	d.diffTimeouts()
	d.diffSets()
	d.withoutHeld()
	d.diffChains()
	d.diffLinks()
	d.diffAddrs()
	d.diffRoutes()
	d.diffNeighbors()
	d.collect()
	d.warn()
	return d.plan
}

// differ is one run of Diff.
type differ struct {
	want State
	have Observed
	ops  [numPhases][]Op
	plan Plan
	// reset has the families whose chains go and come again, because a set
	// they name is of a wrong type.
	reset4, reset6 bool
	temps          int                 // temporary sets in use
	waiting        map[netip.Addr]bool // VIPs that are not made local yet; nil if there is none
}

func (d *differ) add(p phase, o Object)    { d.put(p, Op{Verb: Add, Object: o}) }
func (d *differ) remove(p phase, o Object) { d.put(p, Op{Verb: Remove, Object: o, Was: o}) }
func (d *differ) change(p phase, was, to Object) {
	d.put(p, Op{Verb: Change, Object: to, Was: was})
}

// expect makes room in a phase for at least n ops more. A first plan, which is long,
// would take three times the memory as it grew.
func (d *differ) expect(p phase, n int) { d.ops[p] = slices.Grow(d.ops[p], max(n, 0)) }

// put doubles the room when there is none: append, which takes a quarter more of
// a long slice, would take four times what a first plan comes to.
func (d *differ) put(p phase, o Op) {
	if n := len(d.ops[p]); n == cap(d.ops[p]) {
		d.ops[p] = slices.Grow(d.ops[p], n)
	}
	d.ops[p] = append(d.ops[p], o)
}
func (d *differ) hold() bool { return d.want.Policy.Hold }

// warn says in words what is left as it is.
func (d *differ) warn() {
	for _, h := range d.plan.Held {
		d.plan.Warnings = append(d.plan.Warnings, heldWarning(d.have.Names, h))
	}
	if d.plan.Left != nil && !d.hold() {
		d.plan.Warnings = append(d.plan.Warnings, leftWarnings(d.plan.Left)...)
	}
}

// collect puts the phases' ops in line.
func (d *differ) collect() {
	n := 0
	for _, ops := range d.ops {
		n += len(ops)
	}
	if n == 0 {
		return
	}
	d.plan.Ops = make([]Op, 0, n)
	for _, ops := range d.ops {
		d.plan.Ops = append(d.plan.Ops, ops...)
	}
}

// walk goes through two sorted slices side by side and reports what is only in
// one of them, or in both with a difference. The missing side is nil.
func walk[T any](want, have []T, same func(a, b *T) bool, compare func(a, b T) int, differs func(w, h *T)) {
	i, j := 0, 0
	for i < len(want) && j < len(have) {
		if same(&want[i], &have[j]) {
			i++
			j++
			continue
		}
		switch c := compare(want[i], have[j]); {
		case c < 0:
			differs(&want[i], nil)
			i++
		case c > 0:
			differs(nil, &have[j])
			j++
		default:
			differs(&want[i], &have[j])
			i++
			j++
		}
	}
	for ; i < len(want); i++ {
		differs(&want[i], nil)
	}
	for ; j < len(have); j++ {
		differs(nil, &have[j])
	}
}

func (d *differ) diffSysctls() {
	walk(d.want.Sysctls, d.have.Sysctls, same, compareSysctl, func(w, h *Sysctl) {
		switch {
		case h == nil:
			d.add(setSysctls, Sysctl{Name: w.Name, Value: w.Value})
		case w != nil:
			if to := w.instead(unchanged(*h, d.have.Saved)); to != h.Value {
				d.change(setSysctls, *h, Sysctl{Name: w.Name, Value: to})
			}
		}
	})
	if d.hold() {
		return
	}
	for _, s := range d.have.Saved {
		if _, wanted := slices.BinarySearchFunc(d.want.Sysctls, Sysctl{Name: s.Name}, compareSysctl); wanted {
			continue
		}
		i, there := slices.BinarySearchFunc(d.have.Sysctls, Sysctl{Name: s.Name}, compareSysctl)
		// A value that is no longer ours was set by somebody who meant it.
		if there && d.have.Sysctls[i].Value == s.Ours && s.Ours != s.Before {
			d.change(restoreSysctls, d.have.Sysctls[i], Sysctl{Name: s.Name, Value: s.Before})
		}
	}
}

// unchanged is the value that a parameter has without us: what it was before, as
// long as our value is there.
func unchanged(have Sysctl, saved []Saved) string {
	i, found := slices.BinarySearchFunc(saved, have.Name, func(s Saved, name string) int { return strings.Compare(s.Name, name) })
	if found && saved[i].Ours == have.Value {
		return saved[i].Before
	}
	return have.Value
}

// instead is the value to write in place of one that is there without us.
func (s Sysctl) instead(of string) string {
	switch {
	case s.Over != "" && of != s.Over:
		return of
	case s.AtLeast:
		want, err := strconv.ParseUint(s.Value, 10, 64)
		have, err2 := strconv.ParseUint(of, 10, 64)
		if err == nil && err2 == nil && have > want {
			return of
		}
	}
	return s.Value
}

func (d *differ) diffChains() {
	walk(d.want.Chains, d.have.Chains, same, compareChain, func(w, h *Chain) {
		if h != nil && d.reset(h.Family) {
			d.remove(dropMisusedChains, *h)
			h = nil
			if w == nil {
				return
			}
		}
		switch {
		case h == nil:
			d.add(writeChains, *w)
		case w == nil:
			if !d.hold() {
				d.remove(removeChains, *h)
			}
		case d.hold() && w.Name == d.have.Names.Chain(ChainIPVSOutFilter):
			// Its rules are of VIPs one by one, so those of services that are not
			// yet known stay; all of them drop, in any order.
			if to := (Chain{w.Family, w.Table, w.Name, withRules(w.Rules, h.Rules)}); !sameRules(to.Rules, h.Rules) {
				d.change(writeChains, *h, to)
			}
		case !sameRules(w.Rules, h.Rules):
			d.change(writeChains, *h, *w)
		}
	})
	d.resetEqualChains()
}

// resetEqualChains also rewrites the chains that walk found equal, in a family
// whose sets have to be freed of all rules.
func (d *differ) resetEqualChains() {
	if !d.reset4 && !d.reset6 {
		return
	}
	for _, w := range d.want.Chains {
		if i, ok := slices.BinarySearchFunc(d.have.Chains, w, compareChain); ok && d.reset(w.Family) && d.have.Chains[i] == w {
			d.remove(dropMisusedChains, w)
			d.add(writeChains, w)
		}
	}
}

func (d *differ) reset(f Family) bool { return f == IPv4 && d.reset4 || f == IPv6 && d.reset6 }

func (d *differ) diffLinks() {
	if w, h := d.want.Links, d.have.Links; len(w) == 1 && len(h) == 1 && w[0].Name != h[0].Name && w[0].Type == h[0].Type {
		d.change(addLinks, h[0], w[0]) // ours was renamed
		return
	}
	walk(d.want.Links, d.have.Links, same, compareLink, func(w, h *Link) {
		switch {
		case h == nil:
			d.add(addLinks, *w)
		case w != nil:
			d.change(addLinks, *h, *w)
		case !d.hold():
			d.remove(removeLinks, *h)
		}
	})
}

// serves says whether some wanted virtual server of an address is there.
func (d *differ) serves(a netip.Addr) bool {
	for _, v := range virtualsOf(d.have.Virtuals, a) {
		if _, wanted := slices.BinarySearchFunc(d.want.Virtuals, v, compareVirtual); wanted {
			return true
		}
	}
	return false
}

// virtualsOf is the part of sorted virtual servers that has an address.
func virtualsOf(virtuals []Virtual, a netip.Addr) []Virtual {
	start, _ := slices.BinarySearchFunc(virtuals, a, func(v Virtual, a netip.Addr) int { return v.Key.Addr.Addr().Compare(a) })
	end := start
	for end < len(virtuals) && virtuals[end].Key.Addr.Addr() == a {
		end++
	}
	return virtuals[start:end]
}
