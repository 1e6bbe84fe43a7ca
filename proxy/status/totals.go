package status

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// totals returns the sums over the services of a status, and the numbers of wanted
// objects.
func (b *builder) totals(list []Service) Totals {
	now, want := b.in.Snapshot, &b.in.Snapshot.Want
	addrs, routes := unbound(b.in.History.taken, want)
	t := Totals{
		Services: b.f.Table.Services.Len(), Draining: len(now.Drains),
		Barred: now.Barred, Faults: b.in.History.refused, VIPs: len(want.Addrs) - addrs, RoutedVIP: len(want.Routes) - routes,
	}
	t.Virtuals, t.Reals = b.f.Count()
	for i := range list {
		s := &list[i]
		t.Active += s.Active
		t.Inactive += s.Inactive
		t.Traffic = t.Traffic.Plus(s.Traffic)
		switch s.State {
		case NoBackends:
			t.Empty++
		case Missing:
			t.Missing++
		case LeftOut:
			t.LeftOut++
		}
	}
	return t
}

// unbound counts the VIPs that another host has, by how they would be local here.
func unbound(taken []kernel.Taken, want *kernel.State) (addrs, routes int) {
	seen := make(map[netip.Addr]bool)
	for _, t := range taken { // a VIP is listed once for each link
		_, routed := slices.BinarySearchFunc(want.Routes, t.Addr, func(r kernel.Route, a netip.Addr) int {
			return r.Addr.Compare(a)
		})
		switch {
		case seen[t.Addr]:
		case routed:
			routes++
		default:
			addrs++
		}
		seen[t.Addr] = true
	}
	return addrs, routes
}
