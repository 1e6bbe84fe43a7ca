package kernel

import (
	"net/netip"
	"slices"
)

// Strange gives the addresses on the device of our name that nothing says are ours:
// on a machine where svcproxy has not run, another program's device may have it. A
// device is ours if it is empty, if all that is bound to it is guarded by the set
// of our prefix that guards VIPs, or if kube-proxy left it, which has that name for
// its own and sets beside it.
func (o *Observed) Strange() []Addr {
	if o.Names.Device == DefaultNames.Device && len(o.Sets) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(o.Addrs), func(a Addr) bool { return a.Link != o.Names.Device || o.Guards(a.Addr) })
}

// Guards says whether an address is in the set of VIPs that are bound.
func (o *Observed) Guards(a netip.Addr) bool {
	guard := Entry{Set: o.Names.Set(FamilyOf(a), IPVSIPs), Addr: a}
	_, guarded := slices.BinarySearchFunc(o.Entries, guard, Entry.Compare)
	return guarded
}
