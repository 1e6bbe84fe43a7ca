package plan

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// diffOthers removes what is ours in the back end of iptables that is not written. It goes when all that is
// wanted is written and bound: until then the old rules serve. Where no chains are wanted it goes as late as
// those of the written back end: it may guard VIPs.
func (d *differ) diffOthers() {
	kernel.Walk(d.want.Others, d.have.Others, sameOther, kernel.OtherChain.Compare, func(w, h *kernel.OtherChain) {
		switch {
		case h == nil:
		case h.Stuck || !d.reset(h.Family) && !d.decided(*h):
			d.plan.Others = append(d.plan.Others, *h)
		case d.reset(h.Family): // its rules may name the set that goes
			d.drop(kernel.DropMisusedChains, *h)
		case w != nil:
			d.change(kernel.DropOthers, *h, *w)
		case len(d.want.Chains) > 0:
			d.remove(kernel.DropOthers, *h)
		default:
			d.remove(kernel.RemoveChains, *h)
		}
	})
}

func sameOther(a, b *kernel.OtherChain) bool {
	return a.Compare(*b) == 0 && kernel.SameRules(a.Rules, b.Rules)
}

// leadsOf returns where the rules of both back ends lead packets of a protocol to. The table that translates a
// packet first decides, and that may be either.
func (d *differ) leadsOf(proto kernel.Proto) leads {
	l := translations(d.have.Names, &d.have.State, proto)
	if len(d.have.Others) == 0 {
		return l
	}
	chains := make([]kernel.Chain, len(d.have.Others))
	for i := range chains {
		chains[i] = d.have.Others[i].Chain
	}
	other := byRules(d.have.Names, chains, proto)
	other.addSlots(d.have.Names, d.have.OtherEntries)
	l.virtuals, l.reals = slices.Concat(l.virtuals, other.virtuals), slices.Concat(l.reals, other.reals)
	l.sort()
	return l
}
