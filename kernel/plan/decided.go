package plan

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// decided reports whether it is decided that an object which is not wanted goes. It is if all tables are there. While
// one is missing (Policy.Hold) the object may be of a service of that table. Decided is then what a table that is there
// says: the endpoints that it cuts, and the announcements of the VIPs that it has, whose endpoints are down, or whose
// node is drained.
func (d *differ) decided(o kernel.Object) bool {
	if !d.want.Policy.Hold {
		return true
	}
	switch o := o.(type) {
	case kernel.Real:
		return d.cuts(o.Key)
	case kernel.Flow:
		return d.cuts(o.Key)
	case kernel.Announcement:
		return d.wantsLocal(o.Addr)
	}
	return false
}

// wantsLocal reports whether an address is to be local.
func (d *differ) wantsLocal(a netip.Addr) bool {
	return slices.ContainsFunc(d.want.Routes, func(r kernel.Route) bool { return r.Addr == a }) ||
		slices.ContainsFunc(d.want.Addrs, func(x kernel.Addr) bool { return x.Addr == a })
}

// remove removes an object that is not wanted. It is the one rule about tables that are missing: nothing that is not
// decided is removed. It reports whether the object goes.
func (d *differ) remove(p kernel.Phase, o kernel.Object) bool {
	if !d.decided(o) {
		return false
	}
	d.drop(p, o)
	return true
}

// drop removes an object that is in the way of a wanted one, or that a plan left which ended early.
func (d *differ) drop(p kernel.Phase, o kernel.Object) {
	d.put(p, kernel.Op{Verb: kernel.Remove, Object: o, Was: o})
}
