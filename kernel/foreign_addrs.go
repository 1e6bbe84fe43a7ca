package kernel

import (
	"net/netip"
	"slices"
	"strings"
)

// ForeignAddrs lists the addresses on the device of our name that may be another program's.
// The device is ours if it is empty or if all of its addresses are guarded VIPs.
// It is also ours if kube-proxy left it: it is named kube-ipvs0 and there are sets of our
// prefix.
func (o *Observed) ForeignAddrs() []Addr {
	if o.Names.Device == DefaultNames.Device && len(o.Sets)+len(o.OtherSets) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(o.Addrs), func(a Addr) bool {
		return a.Link != o.Names.Device || o.Guards(a.Addr)
	})
}

// Guards reports whether an address is in the set of guarded VIPs or, in mode iptables, has a
// rule that guards it.
func (o *Observed) Guards(a netip.Addr) bool {
	guard := Entry{Set: o.Names.Set(FamilyOf(a), IPVSIPs), Addr: a}
	return o.Entries.Has(guard) || o.OtherEntries.Has(guard) || slices.ContainsFunc(o.Chains, func(c Chain) bool {
		return c.Family == FamilyOf(a) && c.Table == "filter" && o.Names.IsChain(c.Name, ChainVIPFilter) &&
			strings.Contains(c.Rules, "-d "+netip.PrefixFrom(a, a.BitLen()).String()+" ")
	})
}
