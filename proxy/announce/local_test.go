package announce

import (
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// A VIP that is no longer local is withdrawn: another host has it, or could have it, or the kernel lacks it.
func TestLocal(t *testing.T) {
	vip := netip.MustParseAddr("10.0.0.1")
	claim := kernel.Claim{Addr: vip, Link: "eth0"}
	routes := []kernel.Route{{Addr: vip}}
	const announced, isAsked = "10.0.0.1 metric 100", "10.0.0.1: other hosts are asked whether they have it"
	n := newNode(t, usual)
	n.policy = kernel.Policy{Probe: true, Claims: []kernel.Claim{claim}}
	n.step()
	n.want(n.step(web), isAsked)
	n.probed = n.policy.Claims
	n.want(n.step(web), announced)
	n.have.Routes, n.probed = routes, nil
	n.want(n.step(web), announced)

	n.have.Routes = nil // a restart after another program removed it
	n.want(n.step(web), isAsked)
	n.taken = []kernel.Taken{{Claim: claim, MAC: "02:00:00:00:00:01"}}
	n.want(n.step(web), "10.0.0.1: not taken over: another host, 02:00:00:00:00:01 on eth0, answers for it")
	n.taken = nil
	n.have.Routes = routes // the other host is gone
	n.want(n.step(web), "10.0.0.1: it can be served, and waits 5s before it is announced")
	n.now = n.now.Add(5 * time.Second)
	n.want(n.step(web), announced)

	n.have.Routes, n.probed = nil, n.policy.Claims // the kernel refuses the route
	n.want(n.step(web), announced)
	n.want(n.step(web), "10.0.0.1: the node has no address or route for it")
}
