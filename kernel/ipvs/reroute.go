package ipvs

import (
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// expiry is how long a real server that changes to or from direct forwarding stays removed. With
// expire_nodest_conn the kernel ends its connections meanwhile, after one tick of its clock
// (expire_nodest_conn_work, since Linux 5.9).
const expiry = 100 * time.Millisecond

// reroutes reports whether a real server changes to or from direct forwarding. The kernel
// keeps one route for each real server, that of the connection that sends first (__ip_vs_get_out_rt).
// Only a route that was made for direct forwarding has the real server as its next hop
// (IP_VS_RT_MODE_KNOWN_NH). With any other route a direct packet asks for the VIP's own MAC address,
// and no host answers. So one old connection could make the kernel lose all new ones, for as long as
// the route is valid. Removing the real server ends its connections.
func reroutes(was kernel.Object, to *kernel.Real) bool {
	r, ok := was.(kernel.Real)
	return ok && (r.Forward == kernel.Direct) != (to.Forward == kernel.Direct)
}

// reroute adds the real servers again that were removed for their route.
func (a *applying) reroute() {
	if len(a.rerouted) == 0 {
		return
	}
	time.Sleep(expiry)
	for _, i := range a.rerouted {
		if !a.hasFailed(i) {
			a.message(i)
			r := a.ops[i].Object.(kernel.Real)
			putReal(&a.table.batch, a.table.family, cmdNewDest, &r)
		}
	}
	a.flush()
}
