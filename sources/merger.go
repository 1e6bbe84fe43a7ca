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
	bound  map[netip.Addr]*owner
}

// Merge gives what the function Merge does.
func (m *Merger) Merge(tables ...Table) (Table, []Problem) {
	if m.clean && m.sameClaims(tables) {
		m.tables = slices.Clone(tables)
		return interleave(tables), nil
	}
	merged, problems, all := merge(tables)
	m.tables, m.clean, m.bound = slices.Clone(tables), len(problems) == 0, all.bound
	return merged, problems
}

// sameClaims says whether tables differ from the last ones in endpoints alone, none of which is a VIP: then
// nobody is in anybody's way who was not before.
func (m *Merger) sameClaims(tables []Table) bool {
	if len(tables) != len(m.tables) {
		return false
	}
	for i, t := range tables {
		changed, ok := OnlyEndpoints(m.tables[i], t)
		if !ok {
			return false
		}
		for _, j := range changed {
			for _, e := range t.Services[j].Endpoints {
				if _, vip := m.bound[e.Addr]; vip {
					return false
				}
			}
		}
	}
	return true
}

// interleave makes one sorted table of sorted ones that have no name in common.
func interleave(tables []Table) Table {
	var some []Table // with services
	n := 0
	for _, t := range tables {
		if len(t.Services) > 0 {
			some = append(some, t)
			n += len(t.Services)
		}
	}
	switch len(some) {
	case 0:
		return Table{}
	case 1:
		return Table{Services: some[0].Services}
	}
	merged := Table{Services: make([]Service, 0, n)}
	for _, t := range some {
		merged.Services = append(merged.Services, t.Services...)
	}
	merged.Sort()
	return merged
}
