package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// followsDrains reports whether the entries of a set stay while real servers of their endpoints drain. Without its
// entry, a reply of an untracked connection would be tracked: new and not known to filter FORWARD.
func (d *differ) followsDrains(set string) bool {
	_, spec, _ := d.have.Names.SetSpec(set)
	return spec.Name == kernel.UntrackedReply || spec.Name == kernel.TrackedEndpoints
}

// keepsReplies looks whether an endpoint that is to reply untracked also replies for a virtual server of another program.
// Connection tracking would see only the requests of that one, and its connections would break.
func (d *differ) keepsReplies(k kernel.VirtualKey) {
	replies := d.want.Entries.Of(d.have.Names.Set(k.Family(), kernel.UntrackedReply))
	if len(replies) == 0 || d.tracks(k.Family()) {
		return
	}
	for _, r := range d.have.Reals.Of(k) {
		at := r.Key.Addr
		answers := func(e kernel.Entry) bool {
			return e.Addr == at.Addr() && (k.Proto == kernel.FWMark || e.Proto == k.Proto && e.Port == at.Port())
		}
		if r.Forward == kernel.Masquerade && slices.ContainsFunc(replies, answers) {
			d.plan.Tracked = append(d.plan.Tracked, r)
			return
		}
	}
}

// track drops what leaves services untracked, in the families of Plan.Tracked. To track everything is always correct, and
// which services could still be untracked depends on the endpoints of all.
func (d *differ) track() {
	if d.plan.Tracked == nil {
		return
	}
	d.want.Entries = d.want.Entries.Where(func(e kernel.Entry) bool {
		family, spec, _ := d.have.Names.SetSpec(e.Set)
		return !spec.Optional || !d.tracks(family)
	})
}

// tracks reports whether all services of a family are tracked.
func (d *differ) tracks(f kernel.Family) bool {
	return slices.ContainsFunc(d.plan.Tracked, func(r kernel.Real) bool { return r.Key.Virtual.Family() == f })
}

func trackedWarning(r kernel.Real) string {
	return fmt.Sprintf("no %s service is untracked, although rules.untracked is set: %s also serves %s, which another program made", r.Key.Virtual.Family(), r.Key.Addr, r.Key.Virtual)
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
	for i, p := range d.phases { // ops are added meanwhile
		if p != kernel.OpenVIPs || d.ops[i].Verb != kernel.Add {
			continue
		}
		if set := d.ops[i].Object.(kernel.Entry).Set; set != v4 && set != v6 {
			continue
		}
		for _, r := range d.have.Reals.Of(d.ops[i].Object.(kernel.Entry).Key()) {
			if r.Forward == kernel.Masquerade {
				d.put(kernel.ClearFlows, kernel.Op{Verb: kernel.Remove, Object: kernel.Flow{Key: r.Key, SourceKept: true}})
			}
		}
	}
}
