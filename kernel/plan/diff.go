package plan

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Diff finds what has to be done to make the kernel equal to the wanted state: the ops in the order in which to do
// them. It changes only owned objects.
//
// Both states are sorted, and Diff walks them side by side. Where they are equal it allocates nothing. The same input
// gives the same plan, and the memory for the next one. That holds if the plan is carried out: see After.
func Diff(want kernel.State, read kernel.Observed, memory kernel.Memory, now kernel.Now) (kernel.Plan, kernel.Memory) {
	d := differ{want: want, have: read, memory: memory, now: now}
	d.expect()
	d.keepDraining()
	// Virtual servers come first: a conflict takes other objects out of what is wanted.
	d.diffVirtuals()
	if d.plan.Conflicts != nil {
		d.want = without(d.want, d.plan.Conflicts, read.Names)
	}
	for k := range kernel.NumKinds {
		d.diff(k)
	}
	d.collect()
	d.warn()
	return d.plan, d.remember()
}

// Once returns the plan of a program that has no memory, such as one that shows a plan. No host was asked about VIPs.
func Once(want kernel.State, read kernel.Observed) kernel.Plan {
	p, _ := Diff(want, read, kernel.Memory{}, kernel.Now{})
	return p
}

// diff compares the objects of a kind: by a function of their own where there is
// policy in it, otherwise by diffList. It is a switch and no table, since a call
// through a table would make every Diff allocate its differ.
func (d *differ) diff(k kernel.Kind) {
	switch k {
	case kernel.KindSysctl:
		d.diffSysctls()
	case kernel.KindTimeouts:
		d.diffTimeouts()
	case kernel.KindSet:
		d.diffSets() // and entries and swaps
		d.withoutHeld()
	case kernel.KindChain:
		d.diffChains()
	case kernel.KindOtherChain:
		d.diffOthers()
	case kernel.KindLink:
		if !d.renameLink() {
			d.diffList(&kernel.Rows[k])
		}
	case kernel.KindReal:
		d.diffReals()
	case kernel.KindDaemon:
		d.diffDaemons()
	case kernel.KindFlow:
		d.diffFlows() // the last kind: it looks at the ops on all others
	case kernel.KindEntry, kernel.KindSwap, kernel.KindVirtual: // compared with others
	default:
		d.diffList(&kernel.Rows[k])
	}
}

// diffList compares the objects of a kind by its row.
func (d *differ) diffList(row *kernel.Row) {
	differences := row.Objects.Differences(d.want, d.have.State)
	if differences == nil {
		return
	}
	for {
		w, h := differences.Next()
		switch {
		case w == nil && h == nil:
			return
		case h == nil && d.waits(w):
		case h == nil:
			d.add(row.Build, w)
			d.serve(w)
		case w != nil:
			d.change(row.Build, h, w)
		default:
			d.remove(row.Teardown, h)
		}
	}
}

// differ is one call of Diff.
type differ struct {
	want kernel.State
	have kernel.Observed // as read

	memory kernel.Memory // of the last plan
	now    kernel.Now
	plan   kernel.Plan

	ops    []kernel.Op           // in the order in which they are found
	phases []kernel.Phase        // of ops
	counts [kernel.NumPhases]int // of ops, by phase
	torn   []kernel.VirtualKey   // the virtual servers that ops remove, sorted

	// reset4 and reset6 say that the family's chains are removed and added again,
	// because a set that they name has a wrong type.
	reset4, reset6 bool
	about          map[matched]bool    // what the wanted rules of shared chains are about; nil before it is needed
	draining       bool                // virtual servers of another mode drain
	temps          int                 // temporary sets in use
	waiting        map[netip.Addr]bool // VIPs that are not made local yet; nil if there are none
}

func (d *differ) add(p kernel.Phase, o kernel.Object) {
	d.put(p, kernel.Op{Verb: kernel.Add, Object: o})
}
func (d *differ) change(p kernel.Phase, was, to kernel.Object) {
	d.put(p, kernel.Op{Verb: kernel.Change, Object: to, Was: was})
}

// expect makes room for the ops of a plan for all objects, which is long: growing step by step would take three times
// the memory. Most entries go with their set, and real servers with their virtual server.
func (d *differ) expect() {
	want, have, n := &d.want, &d.have, 0
	for _, more := range [...]int{len(want.Virtuals) - len(have.Virtuals), len(want.Addrs) - len(have.Addrs),
		len(want.Routes) - len(have.Routes)} {
		n += max(more, -more)
	}
	n += max(want.Entries.Len()-have.Entries.Len(), 0) + max(want.Reals.Len()-have.Reals.Len(), 0)
	d.grow(n + min(n, 100)) // there are few objects of other kinds
}

func (d *differ) grow(n int) { d.ops, d.phases = slices.Grow(d.ops, n), slices.Grow(d.phases, n) }

// put doubles a full slice. append grows a long slice only by a quarter, which takes
// four times the memory of a first plan.
func (d *differ) put(p kernel.Phase, o kernel.Op) {
	if n := len(d.ops); n == cap(d.ops) {
		d.grow(max(n, 1))
	}
	d.ops, d.phases = append(d.ops, o), append(d.phases, p)
	d.counts[p]++
}

// warn writes the warnings.
func (d *differ) warn() {
	for _, h := range d.plan.Held {
		d.plan.Warnings = append(d.plan.Warnings, heldWarning(d.have.Names, h))
	}
	for _, table := range d.have.Hidden {
		d.plan.Warnings = append(d.plan.Warnings, hiddenWarning(table))
	}
	if d.have.Unseen != "" {
		d.plan.Warnings = append(d.plan.Warnings, "rules of svcproxy may be left in the other back end of iptables: "+
			d.have.Unseen)
	}
	if len(d.plan.Left) > 0 && d.decided(d.plan.Left[0]) {
		d.plan.Warnings = append(d.plan.Warnings, leftWarnings(d.plan.Left)...)
	}
}

// collect orders the ops by phase.
func (d *differ) collect() {
	if d.want.Policy.More {
		d.tearLater()
	}
	if d.plan.Ops = d.ops; slices.IsSorted(d.phases) { // most small plans
		return
	}
	slots := make([]int32, len(d.ops))
	for i, p := range d.phases {
		slots[i] = int32(p)
	}
	arrange(d.ops, slots, int(kernel.NumPhases))
}

// fewLost is how many real servers may go with their virtual servers while more VIPs follow. The kernel keeps each of
// them for two minutes and compares it with every real server that is added: 500 cost up to 20 us for each.
const fewLost = 500

// tearLater leaves teardown to a plan after which nothing follows, which finds it again: of virtual servers if they
// have many real servers, and of what else a VIP has in any case, since it may become local in another way.
func (d *differ) tearLater() {
	lost, n := 0, 0
	for _, k := range d.torn {
		lost += len(d.have.Reals.Of(k))
	}
	for i, p := range d.phases {
		f, isFlow := d.ops[i].Object.(kernel.Flow)
		late := p >= kernel.RemoveAddrs ||
			lost > fewLost && (p == kernel.RemoveVirtuals || isFlow && hasKey(d.torn, f.Key.Virtual))
		if !late {
			d.ops[n], d.phases[n] = d.ops[i], p
			n++
		}
	}
	d.ops, d.phases = d.ops[:n], d.phases[:n]
}

// arrange orders ops by their slots, of which there are n. Ops of one slot keep their order. It works in place, since a
// first plan is long, and overwrites slots.
func arrange(ops []kernel.Op, slots []int32, n int) {
	next := make([]int32, n+1) // where the next op of each slot belongs; ops are counted one further
	for _, slot := range slots {
		next[slot+1]++
	}
	for slot := range n {
		next[slot+1] += next[slot]
	}
	places := slots
	for i, slot := range slots {
		places[i] = next[slot]
		next[slot]++
	}
	for i := range ops {
		op := ops[i]
		for to := places[i]; to != int32(i); {
			op, ops[to] = ops[to], op
			to, places[to] = places[to], to
		}
		ops[i] = op
	}
}

func (d *differ) diffSysctls() {
	first := len(d.ops)
	kernel.Walk(d.want.Sysctls, d.have.Sysctls, same, kernel.Sysctl.Compare, func(w, h *kernel.Sysctl) {
		switch {
		case h == nil:
			d.add(kernel.SetSysctls, kernel.Sysctl{Name: w.Name, Value: w.Value})
		case w != nil:
			if to := instead(*w, unchanged(*h, d.have.Saved)); to != h.Value {
				d.change(kernel.SetSysctls, *h, kernel.Sysctl{Name: w.Name, Value: to})
			}
		}
	})
	moveLast(d.ops[first:], kernel.ForwardingIPv6) // when it goes on, the kernel forgets routes of links without AcceptRA
	for _, s := range d.have.Saved {
		if _, wanted := slices.BinarySearchFunc(d.want.Sysctls, kernel.Sysctl{Name: s.Name}, kernel.Sysctl.Compare); wanted {
			continue
		}
		if d.keeps(s.Name) || !d.decided(kernel.Sysctl{Name: s.Name}) {
			continue
		}
		i, there := slices.BinarySearchFunc(d.have.Sysctls, kernel.Sysctl{Name: s.Name}, kernel.Sysctl.Compare)
		// If the value is no longer ours, another program or a person set it on purpose.
		if there && d.have.Sysctls[i].Value == s.Ours && s.Ours != s.Before {
			d.change(kernel.RestoreSysctls, d.have.Sysctls[i], kernel.Sysctl{Name: s.Name, Value: s.Before})
		}
	}
}

// moveLast moves the op of a parameter behind the others.
func moveLast(ops []kernel.Op, parameter string) {
	i := slices.IndexFunc(ops, func(o kernel.Op) bool { return o.Object.(kernel.Sysctl).Name == parameter })
	if i < 0 {
		return
	}
	op := ops[i]
	copy(ops[i:], ops[i+1:])
	ops[len(ops)-1] = op
}

// unchanged returns the value that a parameter has without svcproxy: the saved one,
// while it still has our value.
func unchanged(have kernel.Sysctl, saved []kernel.Saved) string {
	i, found := slices.BinarySearchFunc(saved, have.Name, func(s kernel.Saved, name string) int {
		return strings.Compare(s.Name, name)
	})
	if found && saved[i].Ours == have.Value {
		return saved[i].Before
	}
	return have.Value
}

// instead returns the value to write in place of one that does not come from svcproxy.
func instead(s kernel.Sysctl, of string) string {
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
