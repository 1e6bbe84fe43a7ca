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

// flowsOfUntracked removes the tracked flows of an address that becomes untracked, but for those that are masqueraded:
// they stay tracked. If the others were tracked again later, the kernel would find their packets outside of the old
// windows of TCP, take these for new connections, and give them another source port.
func (d *differ) flowsOfUntracked() {
	if d.counts[kernel.OpenVIPs] == 0 {
		return
	}
	v4, v6 := d.have.Names.Set(kernel.IPv4, kernel.Untracked), d.have.Names.Set(kernel.IPv6, kernel.Untracked)
	if !d.want.HasSet(v4) && !d.want.HasSet(v6) {
		return
	}
	for _, o := range d.ops { // it grows meanwhile
		e, ok := o.Object.(kernel.Entry)
		if !ok || o.Verb != kernel.Add || e.Set != v4 && e.Set != v6 {
			continue
		}
		for _, r := range d.have.Reals.Of(e.Key()) {
			if r.Forward == kernel.Masquerade {
				d.put(kernel.ClearFlows, kernel.Op{Verb: kernel.Remove, Object: kernel.Flow{Key: r.Key, SourceKept: true}})
			}
		}
	}
}
