package plan

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Next returns the part of a wanted state that the next plan is for, and how many VIPs it leaves to later plans. Only
// VIPs without a virtual server are left. It leaves none if those that were not tried take at most one and a half
// times n virtual and real servers. Otherwise it leaves those that were tried, so that VIPs that the kernel refuses
// keep no others waiting, and all others or, if adds, those that do not fit into n. The kernel is the memory: the next
// reading says what is served.
//
// Where rules serve, n is at least a quarter of those that do already, since iptables-restore reads all of them for
// each part.
//
// A plan that changes the mode is whole, since chains serve all at once.
func Next(
	want kernel.State, read *kernel.Observed, tried map[netip.Addr]bool, n int, adds bool,
) (part kernel.State, left int) {
	if len(read.Others)+len(read.InIPVS) > 0 || len(want.Virtuals) > 0 && balances(read.Names, &read.State) ||
		len(read.Virtuals) > 0 && balances(read.Names, &want) {
		return want, 0
	}
	units, all := unserved(&want, read, tried)
	if n > 0 && len(want.Virtuals) == 0 {
		n = max(n, served(read)/4)
	}
	if all <= n+n/2 {
		return want, 0
	}
	later := map[netip.Addr]bool{}
	for _, u := range units {
		switch {
		case !adds || tried[u.vip] || n <= 0:
			later[u.vip] = true
		default:
			n -= u.objects
		}
	}
	if len(later) == 0 {
		return want, 0
	}
	return withoutVIPs(want, read, later), len(later)
}

// Tried returns the VIPs of a part that have no virtual server after it was carried out, and those that earlier parts
// of the load tried in vain. It returns nil if there are none.
func Tried(part kernel.State, read *kernel.Observed, earlier map[netip.Addr]bool) (tried map[netip.Addr]bool) {
	units, _ := unserved(&part, read, nil)
	if !part.Policy.More {
		earlier = nil // the part had them, too
	}
	if len(units) == 0 {
		return earlier
	}
	tried = maps.Clone(earlier)
	if tried == nil {
		tried = map[netip.Addr]bool{}
	}
	for _, u := range units {
		tried[u.vip] = true
	}
	return tried
}

// unit is a VIP without a virtual server.
type unit struct {
	vip     netip.Addr
	objects int // its virtual and real servers
}

// unserved returns the wanted VIPs that have no virtual server yet, not even one of another program. all are the
// objects of those that were not tried.
func unserved(want *kernel.State, read *kernel.Observed, tried map[netip.Addr]bool) (units []unit, all int) {
	if len(want.Virtuals) == 0 {
		return unservedByRules(want, read, tried)
	}
	if kernel.SameSlice(want.Virtuals, read.Virtuals) {
		return nil, 0
	}
	reals := want.Reals.Cursor()
	for i := range want.Virtuals {
		k := want.Virtuals[i].Key
		if last := len(units) - 1; last < 0 || units[last].vip != k.Addr {
			if len(virtualsOf(read.Virtuals, k.Addr)) > 0 {
				continue
			}
			units = append(units, unit{vip: k.Addr})
		}
		n := 1 + len(reals.Next(k))
		units[len(units)-1].objects += n
		if !tried[k.Addr] {
			all += n
		}
	}
	return units, all
}

// withoutVIPs leaves VIPs out of a wanted state. Sets have room for everything.
func withoutVIPs(s kernel.State, read *kernel.Observed, later map[netip.Addr]bool) kernel.State {
	s.Policy.More = true
	s.Sets = append([]kernel.Set(nil), s.Sets...)
	for i := range s.Sets {
		set := &s.Sets[i]
		set.Size = uint32(s.Entries.Of(set.Name).Len())
		if set.Type != kernel.BitmapPort {
			set.MaxElem = max(set.MaxElem, set.Size)
		}
	}
	if len(s.Virtuals) == 0 {
		s.Chains = withoutRulesOf(s.Chains, read, later)
	}
	s.Virtuals = keep(s.Virtuals, func(v kernel.Virtual) bool { return !later[v.Key.Addr] })
	s.Reals = s.Reals.Where(func(r *kernel.Real) bool { return !later[r.Key.Virtual.Addr] })
	s.Entries = withoutEntries(s.Entries, read, later, s.Reals)
	s.Addrs = keep(s.Addrs, func(a kernel.Addr) bool { return !later[a.Addr] })
	s.Routes = keep(s.Routes, func(r kernel.Route) bool { return !later[r.Addr] })
	s.Neighbors = keep(s.Neighbors, func(n kernel.Neighbor) bool { return !later[n.Addr] })
	s.Announcements = keep(s.Announcements, func(a kernel.Announcement) bool { return !later[a.Addr] })
	// A backup of connection sync needs all real servers.
	s.Daemons = keep(s.Daemons, func(d kernel.SyncDaemon) bool {
		return kernel.Rows[kernel.KindDaemon].Objects.Find(read.State, d) != nil
	})
	return s
}

// withoutEntries leaves entries of VIPs out, and those of hairpins that no real server needs which the kernel lacks.
func withoutEntries(
	l kernel.Entries, read *kernel.Observed, later map[netip.Addr]bool, reals kernel.Reals,
) kernel.Entries {
	loops := [...]string{read.Names.Set(kernel.IPv4, kernel.LoopBack), read.Names.Set(kernel.IPv6, kernel.LoopBack)}
	l = l.Where(func(e kernel.Entry) bool { return !later[e.Addr] || e.IsNet() || slices.Contains(loops[:], e.Set) })
	needed := map[kernel.VirtualKey]bool{}
	reals.Unshared(read.Reals, func(want, have []kernel.Real, _ int) {
		kernel.Walk(want, have, same, kernel.Real.Compare, func(r, _ *kernel.Real) {
			if r != nil {
				needed[kernel.VirtualAt(r.Key.Addr, r.Key.Virtual.Proto)] = true
			}
		})
	})
	for _, set := range loops {
		var gone []kernel.Entry
		eachDifference(l.Of(set), read.Entries.Of(set), func(e, _ *kernel.Entry) {
			if e != nil && !needed[e.Key()] {
				gone = append(gone, *e)
			}
		})
		l = l.With(gone, nil)
	}
	return l
}
