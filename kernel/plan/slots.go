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
		for e := range entries.Of(n.Set(f, kernel.Slots)).All() {
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
		eachDifference(d.want.Entries.Of(set), d.have.Entries.Of(set), func(_, h *kernel.Entry) {
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
		for _, e := range slotsOf(d.have.Names, d.want.Entries, key) {
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

// slotsOf returns the entries of an address in the map of endpoints.
func slotsOf(n kernel.Names, entries kernel.Entries, k kernel.VirtualKey) []kernel.Entry {
	return entries.At(kernel.Entry{Set: n.Set(k.Family(), kernel.Slots), Addr: k.Addr, Proto: k.Proto, Port: k.Port})
}

// leads reports whether an entry of a map leads to endpoints.
func (d *differ) leads(h *kernel.Entry) bool {
	return len(slotsOf(d.have.Names, d.have.Entries, h.Key())) > 0
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
		eachDifference(d.want.Entries.Of(set), d.have.Entries.Of(set), func(w, h *kernel.Entry) {
			if h == nil && w.Proto == kernel.UDP {
				d.clearFlow(kernel.RealKey{Virtual: w.Key(), Addr: w.Key().AddrPort()})
			}
		})
	}
}
