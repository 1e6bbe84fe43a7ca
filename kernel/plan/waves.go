package plan

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// A plan that gives many addresses their first virtual server goes in waves: see DESIGN.md. Plans with fewer
// such ops than leastWaved have none. The first wave has about waveOps ops, besides entries for hairpins, and
// each of the next ones twice as many as the one before, up to 8 times waveOps: each wave ends a batch of
// every kind, so few waves cost few system calls. In waves that remove tracked flows it has wavesOfFlows
// times as many, since each call for flows may list all of them.
var leastWaved, waveOps = 2000, 1000 // tests change them

// fewLost is how many real servers may go with their virtual servers before the waves. The kernel keeps each
// of them for two minutes and compares it with every real server that is added: 500 cost up to 20 us for
// each.
var fewLost = 500 // tests change it

const (
	wavesOfFlows = 8
	wavesDouble  = 3 // so many times
)

// waved are the phases whose ops go in waves. Within a wave they keep their order.
var waved = [...]kernel.Phase{
	kernel.AddGuards, kernel.AddVirtuals, kernel.AddReals, kernel.OpenVIPs, kernel.AddAddrs, kernel.Announce,
	kernel.ClearFlows,
}

// wavedAt are the indexes in waved, by phase; -1 for other phases.
var wavedAt = func() (at [kernel.NumPhases]int) {
	for p := range at {
		at[p] = slices.Index(waved[:], kernel.Phase(p))
	}
	return at
}()

// The slots of a plan with waves: all phases with what belongs to no wave, then the waves with the phases of each, then
// the daemons of connection sync, then the phases once more with what is torn down late.
const (
	slotsBefore = int(kernel.NumPhases)
	slotsAfter  = 1 + int(kernel.NumPhases)
)

// waves is one call of waveSlots.
type waves struct {
	ops      []kernel.Op // these are the differ's; a pointer to that would make every Diff allocate
	phases   []kernel.Phase
	torn     []kernel.VirtualKey
	have     []kernel.Virtual
	addrs    []netip.Addr  // get their first virtual server, sorted
	opsOf    []int32       // how many ops each of addrs has
	at       int           // in addrs: where the last op's address was
	waveOf   []int32       // the wave of each of addrs; behind them those of entries for hairpins
	place    []int32       // of each op: its place in waveOf, -1 if it is in no wave
	sizes    []int         // how many ops each wave has
	loops    [2]hairpins   // of each family
	n, flows int           // ops that belong to an address, and those of them that remove flows
	lost     bool          // more than fewLost real servers go with their virtual servers
	found    []kernel.Wave // End is not set yet
}

// waveSlots returns the slot of each op of a plan that goes in waves, and the number of slots. slots is nil if the plan
// does not.
func (d *differ) waveSlots() (slots []int32, n int) {
	if d.counts[kernel.AddVirtuals]+d.counts[kernel.AddReals]+d.counts[kernel.AddGuards] < leastWaved/2 ||
		d.counts[kernel.ReplaceChains]+d.counts[kernel.ReplaceNAT] > 0 {
		return nil, 0
	}
	w := waves{ops: d.ops, phases: d.phases, torn: d.torn, have: d.have.Virtuals}
	for f, family := range [...]kernel.Family{kernel.IPv4, kernel.IPv6} {
		w.loops[f].set = d.have.Names.Set(family, kernel.LoopBack)
	}
	w.findNew(d.counts[kernel.AddVirtuals])
	if w.addrs == nil {
		return nil, 0
	}
	if w.findAll(d.flowsOfRules); w.n < leastWaved {
		return nil, 0
	}
	w.number()
	w.placeHairpins()
	w.lost = d.losesReals(fewLost)
	slots = w.slots()
	d.plan.Waves = w.found
	return slots, w.after() + slotsAfter
}

// findNew finds the addresses that have no virtual server yet, not even one of another program. No packet for
// them takes a path of ours, so it does not matter which of them is served first. There are at most so many.
func (w *waves) findNew(most int) {
	for i, p := range w.phases {
		if p != kernel.AddVirtuals || w.ops[i].Verb != kernel.Add {
			continue
		}
		a := w.ops[i].Object.(kernel.Virtual).Key.Addr
		if n := len(w.addrs); n > 0 && w.addrs[n-1] == a || len(virtualsOf(w.have, a)) > 0 {
			continue
		}
		if w.addrs == nil {
			w.addrs = make([]netip.Addr, 0, most)
		}
		w.addrs = append(w.addrs, a)
	}
	w.opsOf = make([]int32, len(w.addrs))
}

// losesReals reports whether more than so many real servers go with their virtual servers.
func (d *differ) losesReals(most int) bool {
	n := 0
	for _, k := range d.torn {
		if n += len(d.have.Reals.Of(k)); n > most {
			return true
		}
	}
	return false
}

// findAll finds the address of each op. The first flows are removed because of rules. Chains are written
// before the waves, and a plan after that would not find these flows again, so they are in no wave.
func (w *waves) findAll(flowsOfRules int) {
	w.place = make([]int32, len(w.ops))
	for i, p := range w.phases {
		switch {
		case wavedAt[p] < 0:
			w.place[i] = -1
		case p == kernel.ClearFlows && flowsOfRules > 0:
			flowsOfRules--
			w.place[i] = -1
		case w.isHairpin(i):
			w.place[i] = -1 // see placeHairpins
		default:
			w.place[i] = w.find(p, &w.ops[i])
		}
	}
}

// find returns the index of the address to which an op belongs, and counts the op there. It is -1 if there is none.
func (w *waves) find(p kernel.Phase, o *kernel.Op) int32 {
	a := about(o.Object)
	if !a.IsValid() {
		return -1
	}
	switch { // ops are sorted, so it is mostly the last address or the next one
	case w.addrs[w.at] == a:
	case w.at+1 < len(w.addrs) && w.addrs[w.at+1] == a:
		w.at++
	default:
		i, found := slices.BinarySearchFunc(w.addrs, a, netip.Addr.Compare)
		if !found {
			return -1
		}
		w.at = i
	}
	w.opsOf[w.at]++
	w.n++
	if p == kernel.ClearFlows {
		w.flows++
	}
	return int32(w.at)
}

// about returns the address that clients use, of an object that belongs to one.
func about(o kernel.Object) netip.Addr {
	switch v := o.(type) {
	case kernel.Real:
		return v.Key.Virtual.Addr
	case kernel.Entry:
		return v.Addr
	case kernel.Virtual:
		return v.Key.Addr
	case kernel.Neighbor:
		return v.Addr
	case kernel.Announcement:
		return v.Addr
	case kernel.Flow:
		return v.Key.Virtual.Addr
	case kernel.Local:
		return v.VIP()
	}
	return netip.Addr{}
}

// number gives each address the number of its wave, small ones first.
func (w *waves) number() {
	order := make([]int32, len(w.addrs))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(w.opsOf[a] - w.opsOf[b]) })
	most := waveOps
	if w.flows > 0 {
		most *= wavesOfFlows
	}
	w.waveOf = make([]int32, len(w.addrs))
	for served, i := range order {
		last := len(w.sizes) - 1
		if last < 0 || w.sizes[last] >= most<<min(last, wavesDouble) {
			w.sizes, w.found = append(w.sizes, 0), append(w.found, kernel.Wave{})
			last++
		}
		w.sizes[last] += int(w.opsOf[i])
		w.found[last].VIPs = served + 1
		w.waveOf[i] = int32(last)
	}
}

// slots returns the slot of each op, and finds where the waves end.
func (w *waves) slots() []int32 {
	slots := make([]int32, len(w.ops))
	end := 0 // ops before the first wave
	for i, p := range w.phases {
		slot := 0
		if at := w.place[i]; at >= 0 {
			slot = slotsBefore + int(w.waveOf[at])*len(waved) + wavedAt[p]
		} else {
			slot = w.outside(p, w.ops[i].Object)
		}
		if slot < slotsBefore {
			end++
		}
		slots[i] = int32(slot)
	}
	for i, n := range w.sizes {
		end += n
		w.found[i].End = end
	}
	return slots
}

// after is the first slot after the waves.
func (w *waves) after() int { return slotsBefore + len(w.found)*len(waved) }

// outside is the slot of an op that is in no wave.
func (w *waves) outside(p kernel.Phase, o kernel.Object) int {
	switch {
	case o.Kind() == kernel.KindDaemon: // a backup needs all real servers
		return w.after()
	case w.late(p, o):
		return w.after() + 1 + int(p)
	}
	return int(p)
}

// late reports whether an op tears down after the waves. A plan that stops before it leaves it to the next
// plan, which finds it again. VIPs are closed and real servers of virtual servers that stay are removed early
// in any case.
func (w *waves) late(p kernel.Phase, o kernel.Object) bool {
	switch v := o.(type) {
	case kernel.OtherChain: // these serve until the waves do
		return true
	case kernel.Flow:
		return w.lost && hasKey(w.torn, v.Key.Virtual)
	case kernel.Local:
		if _, isNew := slices.BinarySearchFunc(w.addrs, v.VIP(), netip.Addr.Compare); isNew && p == kernel.RemoveAddrs {
			return true // its wave makes the VIP local in another way
		}
	}
	return w.lost && p >= kernel.RemoveVirtuals
}
