package kernel

import (
	"net/netip"
	"slices"
)

// ForeignAddrs lists the addresses on the device of our name that may be another program's.
// The device is ours if it is empty or if the set of guarded VIPs has all of its addresses.
// It is also ours if kube-proxy left it: it is named kube-ipvs0 and there are sets of our
// prefix.
func (o *Observed) ForeignAddrs() []Addr {
	if o.Names.Device == DefaultNames.Device && len(o.Sets) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(o.Addrs), func(a Addr) bool { return a.Link != o.Names.Device || o.Guards(a.Addr) })
}

// Guards says whether an address is in the set of guarded VIPs.
func (o *Observed) Guards(a netip.Addr) bool {
	guard := Entry{Set: o.Names.Set(FamilyOf(a), IPVSIPs), Addr: a}
	_, guarded := slices.BinarySearchFunc(o.Entries, guard, Entry.Compare)
	return guarded
}
