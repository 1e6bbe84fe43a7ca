package plan

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// keepDraining adds unwanted owned virtual servers with connections to the wanted ones, without real servers. So
// their real servers drain, and each virtual server is removed with its last real server. This is for a change of
// mode: the rules of the other mode already take new connections, and IPVS serves the old ones until they end.
//
// Only TCP and firewall marks drain: see drain. The entries of the ownership set stay with their virtual servers.
func (d *differ) keepDraining() {
	if !d.want.Policy.DrainVirtuals || d.have.Reals.Len() == 0 {
		return
	}
	own := ownershipOf(&d.have, d.memory.Owned)
	var kept []kernel.Virtual
	reals, next := d.have.Reals.Slice(), 0
	for i := range d.have.Virtuals {
		v := &d.have.Virtuals[i]
		for ; next < len(reals) && reals[next].Key.Virtual.Compare(v.Key) < 0; next++ {
		}
		if !d.decided(*v) || !own.has(v) || !drains(v.Key.Proto) || !kernel.Quiesces(v.Scheduler) ||
			hasVirtual(&d.want, v.Key) {
			continue
		}
		for j := next; j < len(reals) && reals[j].Key.Virtual == v.Key; j++ {
			if !d.idle(j) {
				kept = append(kept, *v)
				break
			}
		}
	}
	if len(kept) == 0 {
		return
	}
	d.draining = true
	d.want.Virtuals = sortedWith(d.want.Virtuals, kept, kernel.Virtual.Compare)
	for _, s := range d.have.Sets {
		family, spec, _ := d.have.Names.SetSpec(s.Name)
		if spec.Name != kernel.VirtualServer || slices.ContainsFunc(d.want.Sets, func(w kernel.Set) bool {
			return w.Name == s.Name
		}) {
			continue
		}
		d.want.Sets = sortedWith(d.want.Sets, []kernel.Set{s}, kernel.Set.Compare)
		d.want.Entries = d.want.Entries.With(nil, d.have.Entries.Of(s.Name).Where(func(e kernel.Entry) bool {
			_, found := kernel.FindVirtual(kept, e.Key())
			return found && e.Key().Family() == family
		}).Slice())
	}
}

// sortedWith returns a sorted slice with more elements.
func sortedWith[T any](sorted, more []T, compare func(a, b T) int) []T {
	all := slices.Concat(sorted, more)
	kernel.SortFunc(all, compare)
	return all
}

// keeps reports whether a parameter that is no longer wanted keeps its value. IPVS needs it while virtual
// servers drain. Forwarding of IPv6 stays until no forwarding is wanted, after the last IPv6 service too:
// other programs that need it and found it on wrote nothing. While it is on, the kernel heeds no router on a
// link without AcceptRA, not even one that was silent for a while.
func (d *differ) keeps(parameter string) bool {
	if parameter == kernel.ForwardingIPv6 || kernel.IsAcceptRA(parameter) {
		_, forwards := slices.BinarySearchFunc(d.want.Sysctls, kernel.Sysctl{Name: "net.ipv4.ip_forward"},
			kernel.Sysctl.Compare)
		return forwards
	}
	return d.draining && strings.HasPrefix(parameter, "net.ipv4.vs.")
}
