package sources

import (
	"cmp"
	"net/netip"
	"slices"
)

// Merger is Merge for tables that follow each other. A service keeps what it had the last time, whichever comes
// earlier. If only endpoints have changed, as in most rollouts, it does not decide again who has what.
// Its zero is ready; one goroutine uses it.
type Merger struct {
	// Before is what an earlier run served. NoneBefore: the kernel had nothing of one, so nothing has to be kept.
	Before     Incumbents
	NoneBefore bool

	last   seniority // what this run serves; nil until all tables were there once
	host   HostFacts // and the tables of the last time, and what came of them
	tables []Table
	sum    Size
	found  verdict
	doubts doubts
	merged Table
	ran    bool
	vips   []netip.Addr // of tables, sorted; nil until a merge needs them

	ports   map[hostPort]bool // of tables at the node's own addresses; nil until Wants needs them
	portsOf []netip.Addr      // the addresses that they were looked for at
	asked   map[hostPort]bool // ports at the last AsksForMore
}

// Merged is what a Merger makes of some tables.
type Merged struct {
	Table
	// Delta is what differs between the last merged table and this one.
	Delta Delta
	// Problems are what is left out of the table, or of a service in it: see Merge. Doubts are what is served
	// but probably not as it was meant: see the function Doubts.
	Problems, Doubts []Problem
	// Awaits: something is withheld where a program of the host listens, until it stops.
	Awaits bool
	// Displaced are the programs of the host where services are served, without TakeHostPorts.
	Displaced []Displaced
	// Missing names the sources that have not delivered a table. Keeps: the kernel may serve what one of them had an
	// earlier run serve, which must stay. Features ask Decided.
	Missing []string
	Keeps   bool
	// Contested: contests were decided again, or services came or went, so Incumbents may differ.
	Contested bool
}

// Decided reports whether it is decided what becomes of a VIP: the table has it, or no table is missing that may
// have it.
func (m *Merged) Decided(vip netip.Addr) bool {
	if !m.Keeps {
		return true
	}
	for i := range m.Services.Len() {
		for _, a := range m.Services.At(i).VIPs {
			if a == vip {
				return true
			}
		}
	}
	return false
}

// Merge returns what the function Merge does, but services keep what they had. missing names the sources that have not
// delivered a table: services that are served without it do not become incumbents. If the facts differ from the last
// ones, every service is judged again.
func (m *Merger) Merge(host HostFacts, missing []string, tables ...Table) Merged {
	deltas := m.compare(tables)
	m.sum = m.size(deltas, tables)
	decide := m.found.full || !m.sum.within(host.most()) || !m.ran || !host.sameNode(&m.host) || deltas == nil ||
		!m.keepsClaims(&host, deltas, tables) ||
		slices.ContainsFunc(deltas, func(d Delta) bool { return d.Moved || d.Shifted && len(m.found.of) > 0 })
	if decide {
		before := m.last
		if before == nil {
			before = m.Before
		}
		m.found, m.vips, m.ports = judged(host, before, m.served(&host), tables), nil, nil
	}
	more := slices.ContainsFunc(deltas, func(d Delta) bool { return !d.OnlyEndpoints() }) // than endpoints changed
	now := Merged{
		Problems: m.found.problems, Contested: decide || more, Missing: missing, Keeps: len(missing) > 0 && !m.NoneBefore,
	}
	now.Awaits, now.Displaced = m.found.awaits, m.found.displaced
	if decide {
		now.Table = m.found.apply(tables)
		now.Table.Lists = listsOf(tables)
		now.Delta = Compare(m.merged, now.Table)
	} else {
		now.Table = m.again(tables)
		now.Table.Lists = listsOf(tables)
		now.Delta = m.found.delta(deltas, tables, now.Table)
		now.Delta.Lists = !slices.Equal(m.merged.Lists, now.Table.Lists)
		now.Delta.Shifted = slices.ContainsFunc(deltas, func(d Delta) bool { return d.Shifted })
		if more {
			m.vips, m.ports = nil, nil
		}
	}
	now.Table = now.Table.After(m.merged, now.Delta)
	now.Doubts = few(slices.Concat(m.doubts.update(host, now.Table, now.Delta), m.found.doubts))
	m.merged, m.host, m.tables, m.ran = now.Table, host, slices.Clone(tables), true
	if !now.Keeps {
		m.last = served{now.Table, m.found.held}
	}
	return now
}

// keepsClaims reports whether the last verdict holds for tables with given differences.
func (m *Merger) keepsClaims(host *HostFacts, deltas []Delta, tables []Table) bool {
	free := func(i int) bool {
		alone := func(tables []Table) bool { return len(filled(tables)) == 1 && tables[i].Services.Len() > 0 }
		if len(m.found.of)+len(m.found.doubts) > 0 || !alone(m.tables) || !alone(tables) ||
			!m.merged.Services.Same(m.tables[i].Services) {
			return false
		}
		return !slices.ContainsFunc(deltas[i].Changes, func(c Change) bool {
			return c.Is >= 0 && host.withholds(tables[i].Services.At(c.Is))
		})
	}
	return keepsClaims(deltas, m.tables, tables, free, m.hasVIP)
}

// withholds reports whether the node cannot serve a part of a service, whatever others there are.
func (h *HostFacts) withholds(s *Service) bool {
	for _, a := range s.VIPs {
		if h.cutOff(a) {
			return true
		}
	}
	for a := range s.Addresses {
		// The port of a health check may be one of another service at an address of the node.
		if text, _ := h.listens(s, &a, h.serving); text != "" || a.Kind == KindHealthCheck || h.owns(a.Addr) {
			return true
		}
	}
	return h.leavesMark(s) != "" || h.leavesLimits(s) != ""
}

// hasVIP reports whether one of the addresses is a VIP in the last tables. These stay the same while only endpoints
// change.
func (m *Merger) hasVIP(addrs map[netip.Addr]bool) bool {
	if m.vips == nil {
		for _, t := range m.tables {
			for i := range t.Services.Len() {
				for _, a := range t.Services.At(i).VIPs {
					m.vips = append(m.vips, a)
				}
			}
		}
		slices.SortFunc(m.vips, netip.Addr.Compare)
	}
	for a := range addrs {
		if _, found := slices.BinarySearchFunc(m.vips, a, netip.Addr.Compare); found {
			return true
		}
	}
	return false
}

// again applies the last verdict to tables for which it holds. If the last merged table
// was the only one that has services, this one is sorted as that was.
func (m *Merger) again(tables []Table) Table {
	last, some := filled(m.tables), filled(tables)
	if len(m.found.of) == 0 && len(last) == 1 && m.merged.Services.Same(last[0].Services) {
		return Table{Services: some[0].Services}.Uncontested()
	}
	return m.found.apply(tables)
}

// compare returns what has changed in each table. It returns nil at the first merge, and if the
// number of tables changed.
func (m *Merger) compare(tables []Table) []Delta {
	if !m.ran || len(tables) != len(m.tables) {
		return nil
	}
	deltas := make([]Delta, len(tables))
	for i, t := range tables {
		deltas[i] = Compare(m.tables[i], t)
	}
	return deltas
}

// delta returns what differs in the merged table if the verdict still holds. If services come or go, or the
// merged table shares all of one table, that is what differs in the only table that has any. Otherwise the
// merged tables have the same services at the same indexes.
func (v *verdict) delta(deltas []Delta, tables []Table, merged Table) Delta {
	var d Delta
	for i, of := range deltas {
		if !of.OnlyEndpoints() || merged.Services.Same(tables[i].Services) {
			return of
		}
	}
	for i, of := range deltas {
		for _, c := range of.Changes {
			if v.of[place{i, c.Is}].out {
				continue
			}
			at, _ := merged.Index(c.Namespace, c.Name)
			c.Was, c.Is = at, at
			d.Changes = append(d.Changes, c)
		}
	}
	SortFunc(d.Changes, func(a, b Change) int { return cmp.Compare(a.Is, b.Is) })
	return d
}

// Incumbents are the services of the last merged table, and the holders of contested claims.
func (m *Merger) Incumbents() Incumbents { return incumbents(m.merged, m.found.held) }

// served answers what was served before from the last merged table. It also knows who won the contests of that merge: a
// claim that the node cannot serve for its address or port stays with its winner, or it would be another's at the next
// merge.
type served struct {
	Table
	held []Holding
}

func (t served) served(s *Service) bool {
	i, ok := t.Index(s.Namespace, s.Name)
	return ok && t.Services.At(i).Origin.Source == s.Origin.Source && t.Services.At(i).Origin.File == s.Origin.File
}

func (t served) grown(s *Service) bool {
	i, ok := t.Index(s.Namespace, s.Name)
	return ok && !SizeOf(s).within(SizeOf(t.Services.At(i)))
}

// holders searches all services. That costs as much as a merge, so it is only called if there are rivals.
func (t served) holders(rivals map[Claim][]want) map[Holding]bool {
	held := Incumbents{Held: t.held}.holders(rivals)
	for i := range t.Services.Len() {
		s := t.Services.At(i)
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
