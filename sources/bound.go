package sources

import (
	"cmp"
)

// excess is a service that is left out because with it a table would be too large, and why.
type excess struct {
	at  place
	why string
}

// bound returns the services of some tables for which there is no room in a size. Room goes first to those that were
// served and have not grown, then to others that were served, then to new ones: a new service displaces none. Among
// equals the smallest comes first, then the first one. left are the services that are left out in any case.
func bound(most Size, before seniority, left map[place]outcome, tables []Table) []excess {
	all := candidates(most, before, left, tables)
	var sum Size
	for _, c := range all {
		sum = sum.Plus(c.size)
	}
	if sum.within(most) {
		return nil
	}
	SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.grade, b.grade), cmp.Compare(a.share, b.share))
	})
	var out []excess
	sum = Size{}
	for _, c := range all {
		if why := ShapeOf(tables[c.at.table].Services.At(c.at.service)).Excess(sum, most); why != "" {
			out = append(out, excess{c.at, why})
			continue
		}
		sum = sum.Plus(c.size)
	}
	return out
}

// candidate is a service that wants room.
type candidate struct {
	at    place
	size  Size
	share int
	grade int // 0: it was served and has not grown, 1: it was served, 2: it is new
}

// candidates returns the services of tables in their order.
func candidates(most Size, before seniority, left map[place]outcome, tables []Table) []candidate {
	var all []candidate
	for i, t := range tables {
		for _, j := range byOrigin(t.Services) {
			at, s := place{i, j}, t.Services.At(j)
			if left[at].out {
				continue
			}
			c := candidate{at: at, size: SizeOf(s), grade: 2}
			c.share = c.size.share(most)
			if before != nil && before.served(s) {
				if c.grade = 0; before.grown(s) {
					c.grade = 1
				}
			}
			all = append(all, c)
		}
	}
	return all
}

// bound refuses the services that make a table too large, whatever node serves it.
func (v *validation) bound(t Table) {
	if t.sizeOf().within(Most) {
		return
	}
	for _, x := range bound(Most, nil, nil, []Table{t}) {
		v.refuse(t.Services.At(x.at.service), "%s", x.why)
	}
}

// bound leaves out services for which the node has no room.
func (v *verdict) bound(host HostFacts, before seniority, tables []Table) {
	for _, x := range bound(host.most(), before, v.of, tables) {
		v.of[x.at] = outcome{out: true, withheld: []Withheld{{Why: x.why}}}
		v.full = true
	}
}

// bound warns of services for which this node has no room, and a node with another mode may have.
func (j *judgement) bound(t Table) {
	if j.host.most() == Most {
		return // Validate refuses them
	}
	for _, x := range bound(j.host.most(), nil, nil, []Table{t}) {
		if s := t.Services.At(x.at.service); s.Origin.File != "" {
			j.doubt(s, "left out: %s", x.why)
		}
	}
}

// size returns what some tables come to, from what the last ones came to and what has changed since.
func (m *Merger) size(deltas []Delta, tables []Table) (sum Size) {
	if deltas == nil {
		for _, t := range tables {
			sum = sum.Plus(t.sizeOf())
		}
		return sum
	}
	sum = m.sum
	for i, d := range deltas {
		for _, c := range d.Changes {
			if c.Was >= 0 {
				sum = sum.minus(SizeOf(m.tables[i].Services.At(c.Was)))
			}
			if c.Is >= 0 {
				sum = sum.Plus(SizeOf(tables[i].Services.At(c.Is)))
			}
		}
	}
	return sum
}

// sizeOf returns the sum of all services.
func (t Table) sizeOf() (sum Size) {
	for _, s := range t.Services.All() {
		sum = sum.Plus(SizeOf(s))
	}
	return sum
}
