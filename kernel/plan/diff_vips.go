package plan

import (
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// diffAddrs and diffRoutes compare how VIPs are made local, diffNeighbors how
// they are answered for on a link. Building precedes tearing down, so a VIP that
// changes from address to route is local all the time.
func (d *differ) diffAddrs() {
	if d.isSettled() && sharedAddrs(d.have.Settled, &d.want) {
		return
	}
	d.expect(addAddrs, len(d.want.Addrs)-len(d.have.Addrs))
	kernel.Walk(d.want.Addrs, d.have.Addrs, sameAddr, kernel.Addr.Compare, func(w, h *kernel.Addr) {
		switch {
		case h == nil && d.disputed(w.Addr):
		case h == nil:
			d.add(addAddrs, *w)
			if d.serves(w.Addr) {
				d.plan.Served = append(d.plan.Served, w.Addr)
			}
		case w == nil && !d.hold():
			d.remove(removeAddrs, *h)
		}
	})
}

func (d *differ) diffRoutes() {
	if d.isSettled() && sharedRoutes(d.have.Settled, &d.want) {
		return
	}
	kernel.Walk(d.want.Routes, d.have.Routes, sameRoute, kernel.Route.Compare, func(w, h *kernel.Route) {
		switch {
		case h == nil && d.disputed(w.Addr):
		case h == nil:
			d.add(addAddrs, *w)
			if d.serves(w.Addr) {
				d.plan.Served = append(d.plan.Served, w.Addr)
			}
		case w == nil && !d.hold():
			d.remove(removeAddrs, *h)
		}
	})
}

func (d *differ) diffNeighbors() {
	kernel.Walk(d.want.Neighbors, d.have.Neighbors, same, kernel.Neighbor.Compare, func(w, h *kernel.Neighbor) {
		switch {
		case h == nil:
			_, answered := slices.BinarySearchFunc(d.have.Answered, *w, kernel.Neighbor.Compare)
			if !answered && !d.waiting[w.Addr] {
				d.add(addAddrs, *w)
			}
		case w == nil && !d.hold():
			d.remove(removeAddrs, *h)
		}
	})
}

// clearFlows forgets the tracked UDP flows of a virtual server to whom answers
// them no more: a client that goes on sending from the same port would be sent
// there for ever. That is a real server that is removed, or, where a virtual
// server is new, its address itself, which is whom packets were tracked to while
// nobody balanced them. Of TCP and SCTP the ends themselves find out.
func (d *differ) clearFlows(r kernel.RealKey) {
	if r.Virtual.Proto == kernel.UDP {
		d.ops[clearFlows] = append(d.ops[clearFlows], kernel.Op{Verb: kernel.Remove, Object: kernel.Flow{Key: r}})
	}
}
