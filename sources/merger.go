package sources

import (
	"net/netip"
	"slices"
)

// Merger is Merge for tables that follow each other. A service keeps what it had the last time, whichever
// comes earlier. Where only endpoints have changed, as in most rollouts, it does not ask again who has what.
// Its zero is ready; one goroutine uses it.
type Merger struct {
	// Before is what an earlier run served.
	Before Incumbents

	last   seniority // what this run serves; nil until all tables were there once
	host   HostFacts // and the tables of the last time, and what came of them
	tables []Table
	found  verdict
	merged Table
	rounds uint64
}

// Merge gives what the function Merge does, but that services keep what they had. While hold, tables may be
// missing: what is served then makes nobody an incumbent.
func (m *Merger) Merge(host HostFacts, hold bool, tables ...Table) (merged Table, problems []Problem) {
	if m.rounds == 0 || !host.sameNode(m.host) || !sameClaims(m.tables, tables) || len(m.found.of) > 0 && !sameOrigins(m.tables, tables) {
		before := m.last
		if before == nil {
			before = m.Before
		}
		m.found = judged(host, before, tables)
		m.rounds++
	}
	m.merged = m.found.apply(tables)
	m.host, m.tables = host, slices.Clone(tables)
	if !hold {
		m.last = served{m.merged}
	}
	return m.merged, m.found.problems
}

// Rounds counts the merges in which anything but endpoints may have changed.
func (m *Merger) Rounds() uint64 { return m.rounds }

// Incumbents are the services of the last merged table, and who has what several want.
func (m *Merger) Incumbents() Incumbents { return incumbents(m.merged, m.found.held) }

// served is a merged table as what was served before.
type served struct{ Table }

func (t served) served(s *Service) bool {
	before, ok := t.Lookup(s.Namespace, s.Name)
	return ok && before.Origin.Source == s.Origin.Source && before.Origin.File == s.Origin.File
}

// holders looks through all services: that costs as much as a merge, and is done where there are rivals.
func (t served) holders(rivals map[Claim][]want) map[Holding]bool {
	held := make(map[Holding]bool, len(rivals))
	for i := range t.Services {
		s := &t.Services[i]
		if !s.Type.Serves() {
			continue
		}
		note := func(c Claim) {
			if _, contested := rivals[c]; contested && !s.withholds(c) {
				held[Holding{c, s.FullName()}] = true
			}
		}
		for a := range s.Addresses {
			note(a.Claim()) // also of a VIP that is withheld: its ports stay with who had them
		}
		for _, a := range s.VIPs {
			note(Claim{Addr: a})
		}
		for j := range s.Endpoints {
			note(Claim{Addr: s.Endpoints[j].Addr, Endpoint: true})
		}
	}
	return held
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
			for _, e := range before[i].Services[j].Endpoints {
				fresh[e.Addr] = true
			}
		}
	}
	return len(fresh) == 0 || !slices.ContainsFunc(now, func(t Table) bool { return t.hasVIP(fresh) })
}

// sameOrigins says whether the services of equal tables are still where they were.
func sameOrigins(before, now []Table) bool {
	for i, t := range now {
		for j := range t.Services {
			if t.Services[j].Origin != before[i].Services[j].Origin {
				return false
			}
		}
	}
	return true
}

// hasVIP says whether one of the addresses is a service's.
func (t Table) hasVIP(addrs map[netip.Addr]bool) bool {
	for i := range t.Services {
		for _, a := range t.Services[i].VIPs {
			if addrs[a] {
				return true
			}
		}
	}
	return false
}
