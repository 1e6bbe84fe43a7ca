package plan

import (
	"iter"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// In mode nftables a map has the endpoints of each address, one or more slots of each.

// addSlots adds what the maps of a state lead to.
func (l *leads) addSlots(n kernel.Names, entries kernel.Entries) {
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		var last kernel.VirtualKey
		for _, e := range entries.Of(n.Set(f, kernel.Slots)) {
			if e.Proto != l.proto {
				continue
			}
			key := e.Key()
			if key != last {
				last = key
				l.virtuals = append(l.virtuals, kernel.Virtual{Key: key})
			}
			l.reals = append(l.reals, kernel.Real{Key: kernel.RealKey{Virtual: key, Addr: e.To()}})
		}
	}
}

// leftSlots returns the endpoints of a protocol that maps no longer lead to, sorted.
func (d *differ) leftSlots(proto kernel.Proto) (left []kernel.RealKey) {
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		set := d.have.Names.Set(f, kernel.Slots)
		want, have := d.want.Entries.Of(set), d.have.Entries.Of(set)
		if kernel.SameSlice(want, have) {
			continue
		}
		kernel.Walk(want, have, sameMember, kernel.Entry.Compare, func(_, h *kernel.Entry) {
			if h != nil && h.Proto == proto {
				left = append(left, kernel.RealKey{Virtual: h.Key(), Addr: h.To()})
			}
		})
	}
	slices.SortFunc(left, kernel.RealKey.Compare)
	return d.slotless(slices.Compact(left))
}

// slotless returns those of sorted endpoints that no wanted map leads to. It looks once at the slots of each address: a
// service with affinity has 8 times as many as endpoints.
func (d *differ) slotless(sorted []kernel.RealKey) (left []kernel.RealKey) {
	for len(sorted) > 0 {
		key, n := sorted[0].Virtual, 1
		for n < len(sorted) && sorted[n].Virtual == key {
			n++
		}
		has := make([]bool, n)
		for e := range slotsOf(d.want.Entries.Of(d.have.Names.Set(key.Family(), kernel.Slots)), key) {
			at, found := slices.BinarySearchFunc(sorted[:n], kernel.RealKey{Virtual: key, Addr: e.To()}, kernel.RealKey.Compare)
			if found {
				has[at] = true
			}
		}
		for i, k := range sorted[:n] {
			if !has[i] {
				left = append(left, k)
			}
		}
		sorted = sorted[n:]
	}
	return left
}

// slotsOf gives the entries of an address in a map of endpoints.
func slotsOf(slots []kernel.Entry, k kernel.VirtualKey) iter.Seq[*kernel.Entry] {
	i, _ := slices.BinarySearchFunc(slots, k, func(e kernel.Entry, k kernel.VirtualKey) int { return e.Key().Compare(k) })
	return func(yield func(*kernel.Entry) bool) {
		for ; i < len(slots) && slots[i].Key() == k && yield(&slots[i]); i++ {
		}
	}
}

// leads reports whether an entry of a map leads to endpoints.
func (d *differ) leads(h *kernel.Entry) bool {
	family, _, _ := d.have.Names.SetSpec(h.Set)
	for range slotsOf(d.have.Entries.Of(d.have.Names.Set(family, kernel.Slots)), h.Key()) {
		return true
	}
	return false
}

// balances reports whether rules of a state balance, and so do the maps that they look into.
func balances(n kernel.Names, s *kernel.State) bool {
	return hasHashed(n, s.Chains) || s.HasSet(n.Set(kernel.IPv4, kernel.Frontends))
}

// flowsOfSlots removes the UDP flows to endpoints that maps no longer lead to, and those of addresses that are served
// from now on: while nothing balanced them, packets were tracked to the address itself.
func (d *differ) flowsOfSlots() {
	n := 0
	for _, p := range [...]kernel.Phase{kernel.AddGuards, kernel.OpenVIPs, kernel.CloseVIPs, kernel.RemoveGuards,
		kernel.RemoveSets} {
		n += d.counts[p]
	}
	if n == 0 { // no entry changes
		return
	}
	for _, k := range d.leftSlots(kernel.UDP) {
		if d.decided(kernel.Flow{Key: k}) {
			d.clearFlow(k)
		}
	}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		set := d.have.Names.Set(f, kernel.Frontends)
		want, have := d.want.Entries.Of(set), d.have.Entries.Of(set)
		if kernel.SameSlice(want, have) {
			continue
		}
		kernel.Walk(want, have, sameMember, kernel.Entry.Compare, func(w, h *kernel.Entry) {
			if h == nil && w.Proto == kernel.UDP {
				d.clearFlow(kernel.RealKey{Virtual: w.Key(), Addr: w.Key().AddrPort()})
			}
		})
	}
}
