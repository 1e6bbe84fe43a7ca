package sources

import (
	"net/netip"
	"slices"
)

// Merger is Merge for tables that change little from time to time: where only endpoints have, as in most
// rollouts, it does not ask again who has what. Its zero is ready; one goroutine uses it.
type Merger struct {
	tables []Table // of the last time
	clean  bool    // nothing was left out of them
}

// Merge gives what the function Merge does.
func (m *Merger) Merge(tables ...Table) (merged Table, problems []Problem) {
	if m.clean && sameClaims(m.tables, tables) {
		merged = interleave(tables)
	} else {
		merged, problems = Merge(tables...)
	}
	m.tables, m.clean = slices.Clone(tables), len(problems) == 0
	return merged, problems
}

// sameClaims says whether tables differ from earlier ones in endpoints alone, none of which is a VIP: then
// nobody is in anybody's way who was not before.
func sameClaims(before, now []Table) bool {
	if len(before) != len(now) {
		return false
	}
	fresh := map[netip.Addr]bool{} // where the changed services' endpoints are
	for i, t := range now {
		changed, ok := OnlyEndpoints(before[i], t)
		if !ok {
			return false
		}
		for _, j := range changed {
			for _, e := range t.Services[j].Endpoints {
				fresh[e.Addr] = true
			}
		}
	}
	return len(fresh) == 0 || !slices.ContainsFunc(now, func(t Table) bool { return t.hasVIP(fresh) })
}

// hasVIP says whether one of the addresses is a service's.
func (t Table) hasVIP(addrs map[netip.Addr]bool) bool {
	given := func(a netip.Addr) bool { return addrs[a] }
	for i := range t.Services {
		s := &t.Services[i]
		if slices.ContainsFunc(s.ClusterIPs, given) || slices.ContainsFunc(s.ExternalIPs, given) ||
			slices.ContainsFunc(s.LoadBalancerIPs, func(v VIP) bool { return addrs[v.Addr] }) {
			return true
		}
	}
	return false
}

// interleave makes one sorted table of sorted ones that have no name in common, and nobody in another's way.
func interleave(tables []Table) Table {
	some := filled(tables)
	switch len(some) {
	case 0:
		return Table{}
	case 1:
		return Table{Services: some[0].Services}.Apart()
	}
	n := 0
	for _, t := range some {
		n += len(t.Services)
	}
	merged := Table{Services: make([]Service, 0, n)}
	for _, t := range some {
		merged.Services = append(merged.Services, t.Services...)
	}
	merged.Sort()
	return merged.Apart()
}

// filled are the tables that have services.
func filled(tables []Table) []Table {
	return slices.DeleteFunc(slices.Clone(tables), func(t Table) bool { return len(t.Services) == 0 })
}
