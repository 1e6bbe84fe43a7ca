package rules

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// loopBack notes the endpoints of this node, which may call their own service: a packet from an endpoint
// that is balanced back to it has one address at both ends, and would be answered past us unless it is
// masqueraded. One whose node is not known may be here. Its conditions do not matter: while it drains its
// connections live.
func (l *listing) loopBack(p sources.Port) {
	for i := range l.found {
		x := &l.found[i]
		if !x.local && !x.homeless {
			continue
		}
		a := x.addr.Addr()
		l.loops = append(l.loops, kernel.Entry{
			Addr:   a,
			Proto:  kernel.Proto(p.Protocol),
			Port:   x.addr.Port(),
			Second: netip.PrefixFrom(a, a.BitLen()),
		})
	}
}

// repeated are the loops, which are sorted, that are equal to the one before, as sorted entries of their
// sets. distinct is how many are not: mostly all, and nothing has to be looked for.
func (l *listing) repeated(distinct int) []kernel.Entry {
	if distinct == len(l.loops) {
		return nil
	}
	repeated := make([]kernel.Entry, 0, len(l.loops)-distinct)
	for i, e := range l.loops[1:] {
		if e == l.loops[i] {
			repeated = append(repeated, e)
		}
	}
	l.config.inLoopSets(repeated)
	return repeated
}

// inLoopSets makes loops sorted entries of their sets.
func (c Config) inLoopSets(loops []kernel.Entry) {
	if len(loops) == 0 {
		return
	}
	for _, f := range c.families() {
		name := c.Names.Set(f, kernel.LoopBack)
		for i := range loops {
			if kernel.FamilyOf(loops[i].Addr) == f {
				loops[i].Set = name
			}
		}
	}
	slices.SortFunc(loops, kernel.Entry.Compare)
}
