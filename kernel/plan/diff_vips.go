package plan

import (
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// VIPs are made local by addresses and routes, and answered for by neighbours. Adding
// precedes removing, so a VIP that changes from address to route is always local.

// waits says whether an object must not be added yet, or not at all.
func (d *differ) waits(o kernel.Object) bool {
	switch v := o.(type) {
	case kernel.Local:
		return d.disputed(v.VIP())
	case kernel.Announcement:
		return d.waiting[v.Addr]
	case kernel.Neighbor:
		_, answered := slices.BinarySearchFunc(d.have.Answered, v, kernel.Neighbor.Compare)
		return answered || d.waiting[v.Addr]
	}
	return false
}

// serve notes a VIP that is made local and has a virtual server already.
func (d *differ) serve(o kernel.Object) {
	if l, ok := o.(kernel.Local); ok && d.serves(l.VIP()) {
		d.plan.Served = append(d.plan.Served, l.VIP())
	}
}

// serves says whether some wanted virtual server of an address exists.
func (d *differ) serves(a netip.Addr) bool {
	for _, v := range virtualsOf(d.have.Virtuals, a) {
		if _, wanted := slices.BinarySearchFunc(d.want.Virtuals, v, kernel.Virtual.Compare); wanted {
			return true
		}
	}
	return false
}

// virtualsOf returns the part of sorted virtual servers that has an address.
func virtualsOf(virtuals []kernel.Virtual, a netip.Addr) []kernel.Virtual {
	start, _ := slices.BinarySearchFunc(virtuals, a, func(v kernel.Virtual, a netip.Addr) int {
		return v.Key.Addr.Compare(a)
	})
	end := start
	for end < len(virtuals) && virtuals[end].Key.Addr == a {
		end++
	}
	return virtuals[start:end]
}

// renameLink gives our device its name back, if it only has another one.
func (d *differ) renameLink() bool {
	w, h := d.want.Links, d.have.Links
	if len(w) != 1 || len(h) != 1 || w[0].Name == h[0].Name || w[0].Type != h[0].Type {
		return false
	}
	d.change(kernel.AddLinks, h[0], w[0])
	return true
}
