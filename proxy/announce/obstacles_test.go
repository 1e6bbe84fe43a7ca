package announce

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
)

// All obstacles stand in the way of a VIP at once, and go one after the other. The reason is always the first of those
// that are left.
func TestTheFirstObstacleIsTheReason(t *testing.T) {
	vip := netip.MustParseAddr("10.0.0.1")
	claim := kernel.Claim{Addr: vip, Link: "eth0"}
	n := newNode(t, usual)
	n.policy = kernel.Policy{Probe: true, Claims: []kernel.Claim{claim}}
	n.taken = []kernel.Taken{{Claim: claim, MAC: "02:00:00:00:00:01"}}
	n.refuses, n.drained, n.starts = true, n.now, Starts{5, n.now.Add(-90 * time.Second), n.now}
	n.memory.departures.withdrawn = map[netip.Addr]withdrawal{vip: {at: n.now}}
	weight := uint32(0)
	removed := []func(){
		func() { n.memory.departures.withdrawn = nil },
		func() { n.taken, n.probed = nil, []kernel.Claim{claim} },
		func() { n.probed = nil },
		func() { n.refuses = false },
		func() { weight = 1 },
		func() { n.now = n.now.Add(usual.HoldUp) },
		func() { n.have.Routes = []kernel.Route{{Addr: vip}} },
		func() { n.now = n.now.Add(steady) },
		func() { n.drained = time.Time{} },
	}
	reasons := []string{
		"removed: ", "not taken over: ", "the node has no address or route for it", "the kernel has no virtual server for",
		"port 80/tcp: 0 of 1 endpoints", "it can be served, and waits", "other hosts are asked", "svcproxy crashed: ",
		"the node is drained",
	}
	if len(reasons) != len(obstacles) || len(removed) != len(obstacles) {
		t.Fatalf("%d obstacles, and reasons for %d", len(obstacles), len(reasons))
	}
	for i, reason := range reasons {
		for range 3 { // what the kernel lacks is a fault once a plan was carried out
			n.step(service("web", "10.0.0.1", 80, weight))
		}
		if v := n.last.VIPs[0]; v.Announced || !strings.HasPrefix(v.Reason, reason) {
			t.Errorf("%d: announced %t, reason %q, want %q", i, v.Announced, v.Reason, reason)
		}
		removed[i]()
	}
	n.want(n.step(service("web", "10.0.0.1", 80, weight)), "10.0.0.1 metric 100")
}
