package plan

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Unread returns what cannot wait of a plan if the kernel could not be read for it: weights of real servers,
// 0 for those that the plan removes, and announcements that end or get another metric. If another program
// changed or removed one of these objects, its op fails or does nothing. Of all other ops a reading has to
// say whether they may be carried out. before are the drains until then.
func Unread(p kernel.Plan, before []kernel.Drain) kernel.Plan {
	urgent := kernel.Plan{Drains: before}
	announced := map[netip.Addr]bool{}
	for _, op := range p.Ops {
		if a, ok := op.Object.(kernel.Announcement); ok && op.Verb == kernel.Remove {
			announced[a.Addr] = true
		}
	}
	for _, op := range p.Ops {
		switch o := op.Object.(type) {
		case kernel.Announcement:
			if announced[o.Addr] { // with another metric: it is added before the old one is removed
				urgent.Ops = append(urgent.Ops, op)
			}
		case kernel.Real:
			if was, ok := op.Was.(kernel.Real); ok {
				to := was
				if op.Verb == kernel.Change {
					to.Weight = o.Weight
				} else {
					to.Weight = 0
				}
				if to != was {
					urgent.Ops = append(urgent.Ops, kernel.Op{Verb: kernel.Change, Object: to, Was: was})
					urgent.Drains = redrained(urgent.Drains, p.Drains, to)
				}
			}
		}
	}
	return urgent
}

// redrained returns the drains with that of a real server whose weight changed as a plan has it.
func redrained(drains, planned []kernel.Drain, r kernel.Real) []kernel.Drain {
	of := func(d kernel.Drain) bool { return d.Real == r.Key }
	if r.Weight > 0 {
		return keep(drains, func(d kernel.Drain) bool { return !of(d) })
	}
	i := slices.IndexFunc(planned, of)
	if i < 0 || slices.ContainsFunc(drains, of) {
		return drains
	}
	return sortedWith(drains, planned[i:i+1], func(a, b kernel.Drain) int { return a.Real.Compare(b.Real) })
}
