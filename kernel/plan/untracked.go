package plan

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// followsDrains reports whether the entries of a set stay while real servers of their endpoints drain. Without its
// entry, a reply of an untracked connection would be tracked: new and not known to filter FORWARD.
func (d *differ) followsDrains(set string) bool {
	_, spec, _ := d.have.Names.SetSpec(set)
	return spec.Name == kernel.UntrackedReply || spec.Name == kernel.TrackedEndpoints
}

// removeDrained removes the unwanted entries of these sets that no draining real server needs. The plan that removes
// the real server removes its entries, too.
func (d *differ) removeDrained() {
	if len(d.drained) == 0 {
		return
	}
	type answerer struct {
		at    netip.AddrPort
		proto kernel.Proto
	}
	answers, asks := map[answerer]bool{}, map[netip.Addr]bool{}
	for i := range d.plan.Drains {
		k := &d.plan.Drains[i].Real
		answers[answerer{k.Addr, k.Virtual.Proto}], asks[k.Addr.Addr()] = true, true
	}
	for _, e := range d.drained {
		at := answerer{netip.AddrPortFrom(e.Addr, e.Port), e.Proto}
		if !answers[at] && (e.Proto != 0 || !asks[e.Addr]) {
			d.remove(kernel.RemoveGuards, e)
		}
	}
}
