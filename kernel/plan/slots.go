package plan

import (
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
			if h == nil || h.Proto != proto {
				return
			}
			if k := (kernel.RealKey{Virtual: h.Key(), Addr: h.To()}); !hasSlot(want, k) {
				left = append(left, k)
			}
		})
	}
	slices.SortFunc(left, kernel.RealKey.Compare)
	return slices.Compact(left)
}

// hasSlot reports whether entries of a map lead to an endpoint.
func hasSlot(slots []kernel.Entry, k kernel.RealKey) bool {
	first := kernel.Entry{Addr: k.Virtual.Addr, Proto: k.Virtual.Proto, Port: k.Virtual.Port, ToPort: 1}
	if len(slots) > 0 {
		first.Set = slots[0].Set
	}
	i, _ := slices.BinarySearchFunc(slots, first, kernel.Entry.Compare)
	for ; i < len(slots) && slots[i].Key() == k.Virtual; i++ {
		if slots[i].To() == k.Addr {
			return true
		}
	}
	return false
}

// leads reports whether an entry of a map leads to endpoints.
func (d *differ) leads(h *kernel.Entry) bool {
	family, _, _ := d.have.Names.SetSpec(h.Set)
	slots := d.have.Entries.Of(d.have.Names.Set(family, kernel.Slots))
	i, _ := slices.BinarySearchFunc(slots, h.Key(), func(e kernel.Entry, k kernel.VirtualKey) int {
		return e.Key().Compare(k)
	})
	return i < len(slots) && slots[i].Key() == h.Key()
}

// balances reports whether rules of a state balance, and so do the maps that they look into.
func balances(n kernel.Names, s *kernel.State) bool {
	return hasHashed(n, s.Chains) || s.HasSet(n.Set(kernel.IPv4, kernel.Frontends))
}

// wantsSlot reports whether a wanted map leads to an endpoint.
func (d *differ) wantsSlot(k kernel.RealKey) bool {
	return hasSlot(d.want.Entries.Of(d.have.Names.Set(k.Virtual.Family(), kernel.Slots)), k)
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
