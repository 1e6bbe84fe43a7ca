package announce

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
)

// departing is a loop that keeps VIPs which depart.
type departing struct {
	*testing.T
	config  Config
	merger  sources.Merger
	memory  Memory
	routes  []kernel.Announcement
	missing []string
	now     time.Time
	before  sources.Table
}

// step returns the services and VIPs that are served, and checks the Delta.
func (n *departing) step(services ...sources.Service) string {
	n.Helper()
	t := sources.Table{Services: sources.ServicesOf(services...)}
	t.Sort()
	merged := n.merger.Merge(sources.HostFacts{}, n.missing, t)
	m, next := Keep(&n.config, n.memory, merged, n.routes, n.now)
	n.memory = next
	if want := sources.Compare(n.before, m.Table); fmt.Sprint(want) != fmt.Sprint(m.Delta) {
		n.Errorf("delta %v, want %v", m.Delta, want)
	}
	n.before = m.Table
	var list []string
	for i := range m.Services.Len() {
		s := m.Services.At(i)
		for kind, a := range s.VIPs {
			list = append(list, fmt.Sprintf("%s %d %s", s.Name, kind, a))
		}
		for _, p := range s.Ports {
			if p.NodePort != 0 {
				list = append(list, fmt.Sprintf("%s node port %d", s.Name, p.NodePort))
			}
		}
	}
	return strings.Join(list, ", ")
}

func (n *departing) want(got, want string) {
	n.Helper()
	if got != want {
		n.Errorf("served are %q, want %q", got, want)
	}
}

// announce sets the routes of the kernel.
func (n *departing) announce(vips ...string) {
	n.routes = nil
	for _, a := range vips {
		n.routes = append(n.routes, kernel.Announcement{Addr: netip.MustParseAddr(a), Table: 143, Metric: 100})
	}
}

func newDeparting(t *testing.T) *departing {
	c := usual
	c.WithdrawWait = 3 * time.Second
	return &departing{T: t, config: c, now: start}
}

// A removed service is served without its node port until its route is gone and the time is over.
func TestDepartures(t *testing.T) {
	n, gone := newDeparting(t), service("gone", "10.0.0.9", 80, 1)
	gone.Ports[0].NodePort = 30080
	const all, rest = "gone 3 10.0.0.9, gone node port 30080, web 3 10.0.0.1", "web 3 10.0.0.1"
	n.want(n.step(web, gone), all)
	n.announce("10.0.0.1", "10.0.0.9")
	n.want(n.step(web, gone), all)
	n.want(n.step(web), "gone 3 10.0.0.9, web 3 10.0.0.1")
	n.now = n.now.Add(time.Minute)
	n.want(n.step(web), "gone 3 10.0.0.9, web 3 10.0.0.1") // the kernel refused to remove the route
	n.announce("10.0.0.1")
	n.now = n.now.Add(2999 * time.Millisecond)
	n.want(n.step(web), "gone 3 10.0.0.9, web 3 10.0.0.1")
	n.now = n.now.Add(time.Millisecond)
	n.want(n.step(web), rest)
	n.want(n.step(web), rest)
	n.want(n.step(web, gone), all)
	n.want(n.step(web), rest) // it was not announced again yet
}

// The time begins when the sync that removed the route is over.
func TestDepartureAfterASlowSync(t *testing.T) {
	n, gone := newDeparting(t), service("gone", "10.0.0.9", 80, 1)
	const both = "gone 3 10.0.0.9, web 3 10.0.0.1"
	n.announce("10.0.0.1", "10.0.0.9")
	n.step(web, gone)
	n.want(n.step(web), both)
	n.announce("10.0.0.1")
	n.now = n.now.Add(10 * time.Second)
	n.memory = n.memory.Ended(true, []VIP{{Addr: netip.MustParseAddr("10.0.0.9")}}, n.now)
	n.want(n.step(web), both)
	n.now = n.now.Add(2 * time.Second)
	n.memory = n.memory.Ended(true, []VIP{{Addr: netip.MustParseAddr("10.0.0.9")}}, n.now) // later syncs find no route
	n.want(n.step(web), both)
	n.now = n.now.Add(time.Second)
	n.want(n.step(web), "web 3 10.0.0.1")
}

// A VIP that leaves a service stays of its kind, and goes at once if another service has it.
func TestDepartureOfOneVIP(t *testing.T) {
	n, both := newDeparting(t), service("web", "10.0.0.1", 80, 1)
	both.ExternalIPs = []netip.Addr{netip.MustParseAddr("10.0.0.9")}
	n.announce("10.0.0.1", "10.0.0.9")
	n.step(both)
	n.want(n.step(web), "web 2 10.0.0.9, web 3 10.0.0.1")
	n.want(n.step(web, service("other", "10.0.0.9", 80, 1)), "other 3 10.0.0.9, web 3 10.0.0.1")
	n.step(both)
	hidden := web
	hidden.Endpoints = []sources.Endpoint{{Addr: netip.MustParseAddr("10.0.0.9")}}
	n.want(n.step(hidden), "web 3 10.0.0.1")
}

// A VIP that comes back is served as before, and announced at once.
func TestDepartureEndsEarly(t *testing.T) {
	d := newDeparting(t)
	n := serving(t, d.config)
	n.step(web)
	d.now = n.now
	d.announce("10.0.0.1")
	d.step(web)
	d.want(d.step(), "web 3 10.0.0.1")
	n.memory.departures = d.memory.departures
	n.want(n.step(web), "10.0.0.1: removed: still served for 3s, until routers know")
	if n.wake != d.now.Add(3*time.Second) || n.last.Routes != nil || n.last.VIPs[0].Until != n.wake {
		t.Errorf("wakes at %s, routes %v", n.wake, n.last.Routes)
	}
	d.want(d.step(web), "web 3 10.0.0.1")
	n.memory.departures = d.memory.departures
	n.want(n.step(web), "10.0.0.1 metric 100")
}

// A load balancer IP also stays of its kind if the service gets another type, with its source ranges.
func TestDepartureOfAType(t *testing.T) {
	n, was, is := newDeparting(t), service("web", "10.0.0.1", 80, 1), service("web", "10.0.0.2", 80, 1)
	was.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	is.Type, is.LoadBalancerIPs, is.ClusterIPs = sources.ClusterIP, nil, []netip.Addr{netip.MustParseAddr("10.96.0.1")}
	n.announce("10.0.0.1")
	n.step(was)
	n.want(n.step(is), "web 1 10.96.0.1, web 3 10.0.0.1")
	if s := *n.before.Services.At(0); s.Type != sources.LoadBalancer || len(s.SourceRanges) != 1 {
		t.Errorf("served as %s with source ranges %v", s.Type, s.SourceRanges)
	}
	n.announce()
	n.now = n.now.Add(time.Minute)
	n.want(n.step(is), "web 1 10.96.0.1")
	if s := *n.before.Services.At(0); s.Type != sources.ClusterIP {
		t.Errorf("served as %s when the VIP is gone", s.Type)
	}
}

// A shorter wait also holds for a VIP that departs already, and so does none.
func TestDepartureWithAnotherWait(t *testing.T) {
	for _, wait := range []time.Duration{2 * time.Second, 0} {
		n := newDeparting(t)
		n.announce("10.0.0.1")
		n.step(web)
		n.config.WithdrawWait = time.Hour
		n.want(n.step(), "web 3 10.0.0.1")
		n.announce()
		n.now = n.now.Add(2 * time.Second)
		n.want(n.step(), "web 3 10.0.0.1")
		n.config.WithdrawWait = wait
		n.want(n.step(), "")
	}
}

// While tables are missing, a VIP that departs stays, and it goes when all are there.
func TestDepartureWhileTablesAreMissing(t *testing.T) {
	n := newDeparting(t)
	n.announce("10.0.0.1")
	n.step(web)
	n.want(n.step(), "web 3 10.0.0.1")
	n.announce()
	n.missing, n.now = []string{"apiserver"}, n.now.Add(time.Minute)
	n.want(n.step(), "web 3 10.0.0.1")
	n.missing = nil
	n.want(n.step(), "")
}

// A VIP that is lost while tables are missing departs when all are there.
func TestDepartureThatBeganWhileTablesAreMissing(t *testing.T) {
	n := newDeparting(t)
	n.announce("10.0.0.1")
	n.missing = []string{"apiserver"}
	n.step(web)
	n.want(n.step(), "web 3 10.0.0.1")
	n.missing, n.now = nil, n.now.Add(time.Minute)
	n.want(n.step(), "web 3 10.0.0.1") // its route is withdrawn now
	n.announce()
	n.now = n.now.Add(3 * time.Second)
	n.want(n.step(), "")
}

// Nothing waits where routers are not told, and without a wait.
func TestNoDepartures(t *testing.T) {
	for _, set := range []func(*departing){
		func(n *departing) { n.config.Mode = VRRP },
		func(n *departing) { n.config.WithdrawWait = 0 },
		func(n *departing) { n.routes = nil },
	} {
		n := newDeparting(t)
		n.announce("10.0.0.1")
		n.step(web)
		set(n)
		n.want(n.step(), "")
	}
}

// A plan names VIPs that go in two steps.
func TestWaits(t *testing.T) {
	n := newDeparting(t)
	n.announce("10.0.0.1", "10.0.0.2", "10.0.0.9")
	want := kernel.State{
		Routes: []kernel.Route{{Addr: netip.MustParseAddr("10.0.0.1")}},
		Addrs:  []kernel.Addr{{Addr: netip.MustParseAddr("10.0.0.2"), Link: "kube-ipvs0"}},
	}
	have := kernel.Observed{State: kernel.State{Announcements: n.routes}}
	got := n.config.Waits(&want, &have)
	if fmt.Sprint(got) != "[10.0.0.9: svcproxy removes its route first, and what serves it 3s later (announce.withdrawWait)]" {
		t.Errorf("%q", got)
	}
}
