package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

var (
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	usual  = Config{Mode: Routes, Table: 143, Metric: 100, DrainMetric: 2000, MinHealthy: 1, Require: All, HoldUp: 5 * time.Second, DrainTime: 30 * time.Second, VIPPriority: 10}
	no     = false
	yes    = true
	web    = service("web", "10.0.0.1", 80, 1, 1)
	second = service("second", "10.0.0.1", 81, 1)
)

// service has one port and endpoints with these weights.
func service(name, vip string, port uint16, weights ...uint32) sources.Service {
	s := sources.Service{
		Namespace: "default", Name: name, Type: sources.LoadBalancer, LoadBalancerIPs: []sources.VIP{{Addr: netip.MustParseAddr(vip)}},
		Ports:                 []sources.Port{{Protocol: sources.TCP, Port: port, TargetPort: 8080}},
		ExternalTrafficPolicy: sources.Cluster, InternalTrafficPolicy: sources.Cluster,
	}
	for i, w := range weights {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{
			Addr: netip.MustParseAddr(fmt.Sprintf("10.2.0.%d", i+1)), Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}},
			Weight: w, Ready: true, Serving: true,
		})
	}
	return s
}

// node decides step by step, as the loop does.
type node struct {
	*testing.T
	config  Config
	memory  Memory
	have    kernel.Observed
	probed  []kernel.Claim
	taken   []kernel.Taken
	drained time.Time
	starts  Starts
	policy  kernel.Policy // with Probe, VIPs are local by routes
	refuses bool          // the kernel refuses virtual servers
	name    string
	zone    string
	whyNot  func(*frontend.Front) string
	now     time.Time
	last    Decision
	wake    time.Time
	missing bool // a table is
	stops   bool // plans are not carried out to their end
}

func newNode(t *testing.T, c Config) *node { return &node{T: t, config: c, now: start} }

// step decides for a table and applies the decision.
func (n *node) step(services ...sources.Service) string {
	t := sources.Table{Services: sources.ServicesOf(services...)}
	t.Sort()
	f := frontend.List(t, kernel.Node{Name: n.name, Zone: n.zone}, frontend.Config{
		IPv6: true, Announce: true, Moved: n.config.Mode == VRRP})
	want := kernel.State{Policy: n.policy}
	for _, x := range f.Fronts {
		if n.whyNot != nil && n.whyNot(&x) != "" {
			continue
		}
		want.Virtuals = append(want.Virtuals, kernel.Virtual{Key: x.Key})
		if n.policy.Probe {
			want.Routes = append(want.Routes, kernel.Route{Addr: x.Key.Addr})
		}
	}
	want.Sort()
	in := Input{
		Frontends: f, Want: &want, Have: &n.have, Probed: n.probed, Taken: n.taken,
		Missing: n.missing, WhyNot: n.whyNot, Drained: n.drained, Starts: n.starts,
	}
	n.last, n.memory, n.wake = Step(n.config, n.memory, in, n.now)
	n.have.Announcements = n.last.Routes
	n.have.Virtuals = want.Virtuals
	if n.refuses {
		n.have.Virtuals = nil
	}
	n.memory = n.memory.Ended(!n.stops, n.last.VIPs, n.now)
	return n.text()
}

func (n *node) text() string {
	var lines []string
	for _, v := range n.last.VIPs {
		line := v.Addr.String()
		if v.Announced {
			line += fmt.Sprintf(" metric %d", v.Metric)
		}
		if v.Reason != "" {
			line += ": " + v.Reason
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func (n *node) want(got, want string) {
	n.Helper()
	if got != want {
		n.Errorf("%s\nwant %s", got, want)
	}
}

// wakes checks when the decision changes by itself, in seconds from now; 0 is never.
func (n *node) wakes(seconds int) {
	n.Helper()
	got := 0
	if !n.wake.IsZero() {
		got = int(n.wake.Sub(n.now) / time.Second)
	}
	if got != seconds {
		n.Errorf("wakes after %d s, want %d", got, seconds)
	}
}

const waits = "10.0.0.1: it can be served, and waits 5s before it is announced"

// After a start, what the kernel does not announce waits for the first results. What it announces stays.
func TestStart(t *testing.T) {
	n := newNode(t, usual)
	n.want(n.step(web), waits)
	n.wakes(5)
	n.now = n.now.Add(5 * time.Second)
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.wakes(0)

	n.memory = Memory{}
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(web, service("new", "10.0.0.2", 80, 1)), "10.0.0.1 metric 100; 10.0.0.2 metric 100")
}

// serving is a node that announces web.
func serving(t *testing.T, c Config) *node {
	n := newNode(t, c)
	n.step(web)
	n.now = n.now.Add(c.HoldUp)
	n.want(n.step(web), fmt.Sprintf("10.0.0.1 metric %d", c.Metric))
	return n
}

func TestHealth(t *testing.T) {
	n := serving(t, usual)
	n.want(n.step(service("web", "10.0.0.1", 80, 0, 1)), "10.0.0.1 metric 100")
	down := service("web", "10.0.0.1", 80, 0, 0)
	n.want(n.step(down), "10.0.0.1: port 80/tcp: 0 of 2 endpoints can serve, and it needs 1")
	n.now = n.now.Add(time.Minute)
	n.want(n.step(web), waits)
	n.now = n.now.Add(4 * time.Second)
	n.step(down)
	n.step(web) // and the pause begins again
	n.wakes(5)
	n.now = n.now.Add(5 * time.Second)
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(service("web", "10.0.0.1", 80)), "10.0.0.1: port 80/tcp: 0 of 0 endpoints can serve, and it needs 1")

	always := usual
	always.MinHealthy = 0
	n = serving(t, always)
	n.want(n.step(down), "10.0.0.1 metric 100")

	half := usual
	half.MinHealthy, half.MinHealthyPercent = 50, true
	n = serving(t, half)
	n.want(n.step(service("web", "10.0.0.1", 80, 0, 0, 1, 1)), "10.0.0.1 metric 100")
	n.want(n.step(service("web", "10.0.0.1", 80, 0, 0, 0, 1)), "10.0.0.1: port 80/tcp: 1 of 4 endpoints can serve, and it needs 2")
	n.want(n.step(service("web", "10.0.0.1", 80)), "10.0.0.1: port 80/tcp: 0 of 0 endpoints can serve, and it needs 1")

	two := usual
	two.MinHealthy = 2 // a service with one endpoint needs that one
	n = serving(t, two)
	n.want(n.step(service("web", "10.0.0.1", 80, 1)), "10.0.0.1 metric 100")
	n.want(n.step(service("web", "10.0.0.1", 80, 1, 0)), "10.0.0.1: port 80/tcp: 1 of 2 endpoints can serve, and it needs 2")
}

// A service says itself how many must be up. Its backups do not count then.
func TestHealthOfAService(t *testing.T) {
	n := serving(t, usual)
	own := func(least int, weights ...uint32) sources.Service {
		s := service("web", "10.0.0.1", 80, append(weights, 1)...)
		s.AnnounceMinHealthy, s.Endpoints[len(weights)].Backup = &least, true
		return s
	}
	n.want(n.step(own(1, 0, 1)), "10.0.0.1 metric 100")
	n.want(n.step(own(0, 0, 0)), "10.0.0.1 metric 100")
	n.want(n.step(own(2, 0, 1)), "10.0.0.1: port 80/tcp: 1 of 2 endpoints can serve, and it needs 2")
	n.want(n.step(own(1, 0, 0)), "10.0.0.1: port 80/tcp: 0 of 2 endpoints can serve, and it needs 1")
}

// Endpoints that serve although they are down do not make a VIP announced.
func TestPanic(t *testing.T) {
	n := serving(t, usual)
	open := service("web", "10.0.0.1", 80, 1, 1)
	open.Endpoints[0].Spared, open.Endpoints[1].Spared = true, true
	n.want(n.step(open), "10.0.0.1: port 80/tcp: 0 of 2 endpoints can serve, and it needs 1")
	n.step(web)
	n.now = n.now.Add(time.Minute)
	n.want(n.step(web), "10.0.0.1 metric 100")
	backups := service("web", "10.0.0.1", 80, 0, 0, 1)
	backups.Endpoints[2].Backup = true
	n.want(n.step(backups), "10.0.0.1 metric 100")
}

// Below the limit, a node under policy Local announces a VIP only if endpoints of its own are up.
func TestBelowLimitOnThisNode(t *testing.T) {
	local := service("web", "10.0.0.1", 80, 1, 1, 1)
	local.ExternalTrafficPolicy = sources.Local
	for i, name := range []string{"n1", "n2", "n2"} {
		local.Endpoints[i].NodeName = name
	}
	few := local
	few.Endpoints = slices.Clone(local.Endpoints)
	few.Endpoints[0].Spared, few.Endpoints[1].Spared = true, true
	for name, want := range map[string]string{"n1": "10.0.0.1: port 80/tcp: 0 of 1 endpoints can serve, and it needs 1", "n2": "10.0.0.1 metric 100"} {
		n := newNode(t, usual)
		n.name = name
		n.step(local)
		n.now = n.now.Add(time.Minute)
		n.want(n.step(local), "10.0.0.1 metric 100")
		n.want(n.step(few), want)
	}
}

// All service ports of a VIP have to be good, or any.
func TestRequire(t *testing.T) {
	down := service("second", "10.0.0.1", 81, 0)
	n := serving(t, usual)
	n.want(n.step(web, second), "10.0.0.1 metric 100")
	n.want(n.step(web, down), "10.0.0.1: port 81/tcp: 0 of 1 endpoints can serve, and it needs 1")
	if got := n.last.VIPs[0].Services; fmt.Sprint(got) != "[second web]" {
		t.Errorf("services %v", got)
	}
	any := usual
	any.Require = Any
	n = serving(t, any)
	n.want(n.step(web, down), "10.0.0.1 metric 100")
}

// What a service says counts more than the kind of its address.
func TestWhichAddresses(t *testing.T) {
	never, own := web, service("own", "10.0.0.3", 80, 1)
	never.Announce = &no
	own.LoadBalancerIPs, own.ClusterIPs = nil, []netip.Addr{netip.MustParseAddr("10.0.0.3")}
	n := newNode(t, usual)
	n.step()
	n.want(n.step(never, own), "")
	own.Announce = &yes
	n.want(n.step(never, own), "10.0.0.3 metric 100")
	own.Announce, own.ExternalIPs = nil, []netip.Addr{netip.MustParseAddr("10.0.0.4")}
	n.want(n.step(own), "10.0.0.4 metric 100")
}

// A drain raises the metric, then withdraws. Its end announces at once.
func TestDrain(t *testing.T) {
	n := serving(t, usual)
	n.drained = n.now
	n.want(n.step(web), "10.0.0.1 metric 2000: the node is drained: routers with another way leave it within 30s")
	n.wakes(30)
	n.now = n.now.Add(30 * time.Second)
	n.want(n.step(web), "10.0.0.1: the node is drained")
	n.wakes(0)
	n.memory = Memory{} // a restart
	n.now = n.now.Add(time.Minute)
	n.step(web)
	n.now = n.now.Add(5 * time.Second)
	n.want(n.step(web), "10.0.0.1: the node is drained")
	n.drained = time.Time{}
	n.want(n.step(web), "10.0.0.1 metric 100")
}

// Drift is repaired by the sync that finds it. A virtual server that the next one still lacks is refused by the kernel.
func TestKernelLacksAVirtualServer(t *testing.T) {
	n := serving(t, usual)
	n.have.Virtuals = nil
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.refuses = true
	n.step(web)
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(web), "10.0.0.1: the kernel has no virtual server for port 80/tcp")
}

// What a plan that stopped left to the next one is not refused.
func TestPlanStoppedBeforeAVirtualServer(t *testing.T) {
	n := serving(t, usual)
	n.have.Virtuals, n.refuses, n.stops = nil, true, true
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.stops = false
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(web), "10.0.0.1: the kernel has no virtual server for port 80/tcp")
}

// While the kernel cannot be read no virtual server is added, so none is refused. The rest is remembered: a VIP that was bad
// is announced after holdUp, not sooner and not never.
func TestDecisionsThatWereNotTried(t *testing.T) {
	n := serving(t, usual)
	n.have.Virtuals, n.refuses, n.stops = nil, true, true
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.refuses, n.stops = false, false
	n.step(web)
	n.stops = true
	down := service("web", "10.0.0.1", 80, 0, 0)
	n.want(n.step(down), "10.0.0.1: port 80/tcp: 0 of 2 endpoints can serve, and it needs 1")
	n.want(n.step(web), waits)
	n.now = n.now.Add(usual.HoldUp)
	n.want(n.step(web), "10.0.0.1 metric 100")
}

// What the kernel has refused stays refused while no plan is carried out.
func TestRefusedWhileNoPlanIsCarriedOut(t *testing.T) {
	n := serving(t, usual)
	n.refuses = true
	n.step(web)
	n.step(web)
	const refused = "10.0.0.1: the kernel has no virtual server for port 80/tcp"
	n.want(n.step(web), refused)
	n.stops = true
	n.want(n.step(web), refused)
	n.want(n.step(web), refused)
}

// keepalived gets one number for the node, never one that takes the node out.
func TestPriority(t *testing.T) {
	vrrp := usual
	vrrp.Mode = VRRP
	n := newNode(t, vrrp)
	priority := func(want int, services ...sources.Service) {
		t.Helper()
		n.step(services...)
		if n.last.Priority != want || n.last.Routes != nil || n.last.File(VRRP) != fmt.Sprintf("%d\n", want) {
			t.Errorf("priority %d, routes %v, want %d", n.last.Priority, n.last.Routes, want)
		}
	}
	priority(0, web)
	var down []sources.Service
	for i := range 20 {
		down = append(down, service(fmt.Sprint(i), fmt.Sprintf("10.0.1.%d", i+1), 80, 0))
	}
	priority(-10, web, down[0])
	priority(-100, down...)
	n.config.VIPPriority = 60
	priority(-60, web, down[0])
	priority(-100, down...)
	n.config.VIPPriority = 164
	priority(-164, down...)
	n.drained = n.now
	priority(-200, web)
}

// Every VIP of a file counts for keepalived, whatever its kind: a service without usable endpoints lowers the number.
// Not so a VIP that the file takes out, and a cluster IP of an API server.
func TestEveryVIPThatMovesCounts(t *testing.T) {
	kept := func(weights ...uint32) sources.Service { // vips with keepClientAddress = true
		s := service("kept", "10.0.0.3", 80, weights...)
		s.Type, s.ClusterIPs, s.LoadBalancerIPs = sources.ClusterIP, []netip.Addr{netip.MustParseAddr("10.0.0.3")}, nil
		s.Origin = sources.Origin{Source: sources.Files, File: "services.toml"}
		return s
	}
	out, ofAPI := kept(), kept()
	out.Announce, ofAPI.Origin = &no, sources.Origin{Source: sources.APIServer}
	for what, c := range map[string]struct {
		service sources.Service
		want    int
	}{
		"up":                {kept(1), 0},
		"down":              {kept(0, 0), -10},
		"without endpoints": {kept(), -10},
		"announce = false":  {out, 0},
		"of an API server":  {ofAPI, 0},
	} {
		vrrp := usual
		vrrp.Mode = VRRP
		n := newNode(t, vrrp)
		n.have.Node.Addrs = []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("10.0.0.3/32"), Link: "eth0"}}
		if n.step(web, c.service); n.last.Priority != c.want {
			t.Errorf("%s: priority %d, want %d", what, n.last.Priority, c.want)
		}
		for _, v := range n.last.VIPs {
			here := map[string]string{"10.0.0.3": "eth0"}[v.Addr.String()]
			if !v.Moved || v.Link != here || v.Uncounted != (what == "announce = false" && here != "") {
				t.Errorf("%s: %+v", what, v)
			}
		}
	}
}

// A restart does not raise the number at once, because nobody knows yet who is up. While a table is missing it only
// falls. What a drain wrote is replaced at any time.
func TestPriorityAfterAStart(t *testing.T) {
	good, bad, drained := []sources.Service{web}, []sources.Service{service("web", "10.0.0.1", 80, 0)}, true
	for _, c := range []struct {
		told    int
		known   bool
		serves  []sources.Service
		drained bool
		missing bool
		after   time.Duration
		want    int
	}{
		{0, false, good, false, false, 0, 0},
		{-10, true, good, false, false, time.Second, -10},
		{-10, true, good, false, false, time.Minute, 0},
		{-10, true, good, false, true, time.Minute, -10},
		{0, true, bad, false, false, time.Second, -10},
		{0, true, bad, false, true, time.Second, -10},
		{0, true, good, drained, true, time.Second, PriorityWithdrawn},
		{PriorityWithdrawn, true, good, false, true, time.Second, 0},
	} {
		vrrp := usual
		vrrp.Mode = VRRP
		n := newNode(t, vrrp)
		n.memory = n.memory.Told(c.told, c.known, n.now.Add(vrrp.HoldUp))
		n.now = n.now.Add(c.after)
		n.missing = c.missing
		if c.drained {
			n.drained = n.now
		}
		n.step(c.serves...)
		if n.last.Priority != c.want {
			t.Errorf("%+v: priority %d", c, n.last.Priority)
		}
		if c.known && c.after == time.Second && !n.wake.Equal(n.now.Add(4*time.Second)) {
			t.Errorf("%+v: wakes at %s", c, n.wake)
		}
	}
}

func TestFile(t *testing.T) {
	n := newNode(t, usual)
	n.step()
	n.step(web, service("v6", "fd00::1", 80), service("other", "10.0.0.9", 80, 1))
	n.want(n.last.File(Routes), "10.0.0.1/32\n10.0.0.9/32\n")
}

// What the kernel did not take is not announced.
func TestConfirm(t *testing.T) {
	n := serving(t, usual)
	n.step(web, service("other", "10.0.0.9", 80, 1))
	n.last.VIPs = Confirm(n.last.VIPs, n.have.Announcements[:1], false)
	n.want(n.text(), "10.0.0.1 metric 100; 10.0.0.9: the last sync could not announce it")
}

// What a plan that stopped has not come to is no failure.
func TestConfirmAfterAStop(t *testing.T) {
	n := serving(t, usual)
	n.step(web, service("other", "10.0.0.9", 80, 1))
	n.last.VIPs = Confirm(n.last.VIPs, n.have.Announcements[:1], true)
	n.want(n.text(), "10.0.0.1 metric 100; 10.0.0.9: it is not served yet: the sync goes on")
}

// What the kernel still announces is not withdrawn yet.
func TestConfirmWithdrawal(t *testing.T) {
	n := serving(t, usual)
	n.step()
	n.step(service("web", "10.0.0.1", 80))
	n.last.VIPs = Confirm(n.last.VIPs, []kernel.Announcement{{Addr: netip.MustParseAddr("10.0.0.1"), Table: 143, Metric: 100}}, false)
	n.want(n.text(), "10.0.0.1 metric 100: port 80/tcp: 0 of 0 endpoints can serve, and it needs 1; the last sync could not withdraw it")
}

func TestOff(t *testing.T) {
	n := newNode(t, Config{Mode: Off})
	n.want(n.step(web), "")
}

// Endpoints that topology hints keep for other zones do not count.
func TestMinHealthyInAZone(t *testing.T) {
	c := usual
	c.HoldUp, c.MinHealthy, c.MinHealthyPercent = 0, 50, true
	n := newNode(t, c)
	n.zone = "a"
	zoned := service("web", "10.0.0.1", 80, 1, 1, 1, 1, 1, 1)
	for i := range zoned.Endpoints {
		zoned.Endpoints[i].Hints = sources.HintsOf(nil, []string{string("abc"[i/2])})
	}
	n.want(n.step(zoned), "10.0.0.1 metric 100")
	zoned.Endpoints[0].Weight = 0
	n.want(n.step(zoned), "10.0.0.1 metric 100")
}

// What the mode cannot serve is not announced, and says so.
func TestNotServedInThisMode(t *testing.T) {
	c := usual
	c.HoldUp = 0
	n := newNode(t, c)
	n.whyNot = func(x *frontend.Front) string {
		if x.Key.Port == 81 {
			return "the relay cannot hold its source ranges"
		}
		return ""
	}
	n.want(n.step(web), "10.0.0.1 metric 100")
	n.want(n.step(web, second), "10.0.0.1: port 81/tcp: the relay cannot hold its source ranges")
	n.config.Require = Any
	n.want(n.step(web, second), "10.0.0.1 metric 100")
}

// Under policy Local, endpoints of this node that are not ready or cut count, and those of other nodes do not.
func TestMinHealthyOfLocalEndpoints(t *testing.T) {
	c := usual
	c.HoldUp, c.MinHealthy, c.MinHealthyPercent = 0, 50, true
	n := newNode(t, c)
	n.name = "n1"
	local := service("web", "10.0.0.1", 80, 1, 1, 1, 1, 1, 1)
	local.ExternalTrafficPolicy = sources.Local
	for i := range local.Endpoints {
		local.Endpoints[i].NodeName = "n1"
	}
	local.Endpoints[4].NodeName, local.Endpoints[5].NodeName = "n2", "n2"
	local.Endpoints[0].Ready, local.Endpoints[0].Serving = false, false
	local.Endpoints[1].Cut = true
	n.want(n.step(local), "10.0.0.1 metric 100")
	local.Endpoints[2].Ready, local.Endpoints[2].Serving = false, false
	n.want(n.step(local), "10.0.0.1: port 80/tcp: 1 of 4 endpoints can serve, and it needs 2")
}
