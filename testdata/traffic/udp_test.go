package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// pace is how often a client of these tests sends.
const pace = 100 * time.Millisecond

// everyUDP are the ways to the UDP port of webOf.
var everyUDP = []string{
	"10.96.0.20:80", "[fd00:96::20]:80", "198.51.100.80:80", "[2001:db8:80::80]:80",
	"203.0.113.9:80", "[2001:db8:9::9]:80", "192.0.2.1:30080", "[2001:db8::1]:30080",
}

// webOf is web with other endpoints.
func webOf(endpoints string) string { return strings.Replace(web, allPods, endpoints, 1) }

// A client that keeps sending from one port loses at most one datagram when its
// backend is removed, the one that tells the kernel; the same with affinity. The
// kernel forgets the flow at its next tick, so at a pace below 4 ms it would be
// some more.
func TestUDPStreamMovesToALiveBackend(t *testing.T) {
	n := newNode(t, "")
	table := func(endpoints string) string {
		return webOf(endpoints) + strings.NewReplacer("services.web", "services.held", "::20", "::21", "0.20", "0.21").Replace(sticky("1h", endpoints))
	}
	n.start(t, table(`["10.2.1.10", "fd00:2:1::10"]`))
	streams := map[string]*lab.Stream{}
	for _, from := range []*lab.Host{n.Client, n.Lab.Node} {
		for _, to := range append(everyUDP, "10.96.0.21:80", "[fd00:96::21]:80") {
			c, err := from.Dial("udp", netip.MustParseAddrPort(to))
			must(t, err)
			streams[from.Name+" to "+to] = c.Stream(pace)
		}
	}
	moves := []struct{ endpoints, from, to string }{
		{`["10.2.2.10", "fd00:2:2::10"]`, "pod1", "pod2"}, // one comes as another goes
		{`["10.2.2.10", "10.2.3.10", "fd00:2:2::10", "fd00:2:3::10"]`, "pod2", "pod2"},
		{`["10.2.3.10", "fd00:2:3::10"]`, "pod2", "pod3"},
	}
	var moving time.Duration // from the file to the kernel, in which a stream may lose what it sends
	for _, m := range moves {
		n.wantAnswering(t, streams, m.from)
		began := time.Now()
		n.serve(t, table(m.endpoints))
		moving += time.Since(began)
		n.wantAnswering(t, streams, m.to)
	}
	most := 2 + int(moving/pace)
	for name, tally := range end(streams) {
		if lost := tally.Lost(); lost > most || tally.Refused > 0 {
			t.Errorf("%s: of %d datagrams %d were lost and %d refused; want at most %d: the moves took %s", name, tally.Sent, lost, tally.Refused, most, moving)
		}
		if order := slices.Compact(tally.Answered); !slices.Equal(order, []string{"pod1", "pod2", "pod3"}) {
			t.Errorf("%s was answered by %v, want each backend in its time", name, order)
		}
	}
}

// wantAnswering waits until every stream is with a backend.
func (n node) wantAnswering(t *testing.T, streams map[string]*lab.Stream, backend string) {
	t.Helper()
	for name, s := range streams {
		must(t, lab.Eventually(20*time.Second, func() error {
			if tally := s.Tally(); tally.Last() != backend {
				return fmt.Errorf("%s is answered by %q, want %s; %d of %d lost", name, tally.Last(), backend, tally.Lost(), tally.Sent)
			}
			return nil
		}))
	}
}

// end ends streams and says what became of each.
func end(streams map[string]*lab.Stream) map[string]lab.Tally {
	for _, s := range streams {
		s.Stop()
	}
	tallies := map[string]lab.Tally{}
	for name, s := range streams {
		tallies[name] = s.End()
	}
	return tallies
}

// A client that was already sending before its service was added is served,
// although conntrack has entries of its unserved datagrams: to addresses routed
// elsewhere, and to a closed node port.
func TestUDPClientFromBeforeItsService(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("other", "10.96.0.21", allV4))
	// By its default route the node would send these back to where they came from.
	must(t, n.Lab.Node.IP("route add 10.200.0.0/24 via 10.2.3.10", "route add fd00:200::/64 via fd00:2:3::10"))
	streams := map[string]*lab.Stream{}
	for _, to := range []string{"10.200.0.1:80", "[fd00:200::1]:80", "10.200.0.2:80", "[fd00:200::2]:80", "192.0.2.1:30080", "[2001:db8::1]:30080"} {
		for _, from := range []*lab.Host{n.Client, n.Backend("pod1").Host} {
			c, err := from.Dial("udp", netip.MustParseAddrPort(to))
			must(t, err)
			streams[from.Name+" to "+to] = c.Stream(pace)
		}
	}
	for name, s := range streams {
		must(t, lab.Eventually(20*time.Second, func() error {
			if tally := s.Tally(); tally.Sent < 3 {
				return fmt.Errorf("%s: %d datagrams sent", name, tally.Sent)
			}
			return nil
		}))
	}
	addresses := strings.NewReplacer("10.96.0.20", "10.200.0.1", "fd00:96::20", "fd00:200::1", "198.51.100.80", "10.200.0.2", "2001:db8:80::80", "fd00:200::2")
	n.serve(t, addresses.Replace(webOf(`["10.2.2.10", "fd00:2:2::10"]`)))
	n.wantAnswering(t, streams, "pod2")
	end(streams)
}

// A flow of UDP has no drain, however many datagrams are on their way.
func TestRemovedUDPEndpointIsGoneAtOnce(t *testing.T) {
	n := newNode(t, `ipvs.drainTimeout = "1h"`)
	n.start(t, webOf(`["10.2.1.10"]`))
	for _, network := range []string{"tcp", "udp"} {
		c, err := n.Client.Dial(network, netip.MustParseAddrPort("10.96.0.20:80"))
		must(t, err)
		defer c.Close()
		wantStill(t, c, "pod1")
	}
	n.serve(t, webOf(`["10.2.2.10"]`))
	for _, c := range []struct{ network, real, weight string }{
		{"tcp", "10.2.1.10:7000", "0"}, // drains, so there was something to cut
		{"udp", "10.2.1.10:7000", ""},
		{"udp", "10.2.2.10:7000", "1"},
	} {
		if w := n.weight(t, c.network, "10.96.0.20:80", c.real); w != c.weight {
			t.Errorf("%s %s has weight %q, want %q", c.network, c.real, w, c.weight)
		}
	}
}

// Without endpoints a client is told at once, one that was being served too.
func TestUDPScaledToZeroIsRefused(t *testing.T) {
	n := newNode(t, "")
	// The kernel tells each host so once a second at most; here all ask at once.
	n.tool(t, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	n.start(t, web)
	streams := map[string]*lab.Stream{}
	for _, to := range everyUDP {
		c, err := n.Client.Dial("udp", netip.MustParseAddrPort(to))
		must(t, err)
		_, err = c.Ask()
		must(t, err)
		streams[to] = c.Stream(pace)
	}
	n.serve(t, webOf("[]"))
	for _, to := range everyUDP {
		must(t, lab.Eventually(20*time.Second, func() error {
			if tally := streams[to].Tally(); tally.Refused == 0 {
				return fmt.Errorf("%s: no refusal for a served client: %d of %d lost", to, tally.Lost(), tally.Sent)
			}
			return nil
		}))
		if _, err := n.Client.Ask("udp", netip.MustParseAddrPort(to)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: a new client wants to be refused, got %v", to, err)
		}
	}
	end(streams)
}

// Entries of what is gone are deleted, and no others: not those of the same port
// of another host, of another service, or of TCP.
func TestTrackedFlowsOfWhatIsGone(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("conntrack"))
	n := newNode(t, "conntrack.udpTimeout = \"10m\"\nconntrack.udpStreamTimeout = \"10m\"\n")
	dns := func(name, proto, v4, v6, endpoints string, nodePort int) string {
		return fmt.Sprintf("[services.%s]\ntype = \"NodePort\"\nclusterIPs = [%q, %q]\nexternalIPs = [\"203.0.113.%d\"]\n"+
			"ports = [{ port = %d, nodePort = %d, protocol = %q }]\nendpoints = %s\n",
			name, v4, v6, nodePort-30000, lab.LinePort, nodePort, proto, endpoints)
	}
	// Everything has one port number, so that only addresses tell it apart.
	others := dns("tcp", "TCP", "10.96.0.53", "fd00:96::53", allPods, 30001) +
		dns("other", "UDP", "10.96.0.54", "fd00:96::54", allPods, 30002)
	udp := func(endpoints string) string {
		return dns("udp", "UDP", "10.96.0.53", "fd00:96::53", endpoints, 30003)
	}
	n.start(t, others+udp(allPods))
	foreign := map[string]bool{} // To of what is to stay
	open := func(network string, stays bool, to ...string) {
		for _, to := range to {
			addr := netip.MustParseAddrPort(to)
			if stays {
				foreign[network+" "+fmt.Sprintf("%s,%d", addr.Addr(), addr.Port())] = true
			}
			for range 3 { // one for each backend
				c, err := n.Client.Dial(network, addr)
				must(t, err)
				t.Cleanup(func() { c.Close() })
				_, err = c.Ask()
				must(t, err)
			}
		}
	}
	open("udp", false, "10.96.0.53:7000", "[fd00:96::53]:7000", "203.0.113.3:7000", "192.0.2.1:30003", "[2001:db8::1]:30003")
	open("udp", true, "10.96.0.54:7000", "[fd00:96::54]:7000", "203.0.113.2:7000", "192.0.2.1:30002")
	open("udp", true, "10.2.1.10:7000", "[fd00:2:1::10]:7000", "10.2.3.10:7000") // the backends themselves
	open("tcp", true, "10.96.0.53:7000", "[fd00:96::53]:7000", "192.0.2.1:30001")

	split := func() (ours, theirs []lab.Flow) {
		flows, err := n.Lab.Node.Tracked()
		must(t, err)
		for _, f := range flows {
			if foreign[f.Proto+" "+f.To] {
				theirs = append(theirs, f)
			} else {
				ours = append(ours, f)
			}
		}
		return ours, theirs
	}
	ours, before := split()
	if len(ours) != 15 || len(before) != 3*len(foreign) {
		t.Fatalf("%d entries of ours, want 15: %v\n%d of others, want %d: %v", len(ours), ours, len(before), 3*len(foreign), before)
	}
	for _, step := range []struct {
		name, services string
		gone           []string // whose answers nobody waits for
	}{
		{"one endpoint removed", udp(`["10.2.2.10", "10.2.3.10", "fd00:2:2::10", "fd00:2:3::10"]`), []string{"10.2.1.10", "fd00:2:1::10"}},
		{"scaled to zero", udp("[]"), []string{"10.2.1.10", "10.2.2.10", "10.2.3.10", "fd00:2:1::10", "fd00:2:2::10", "fd00:2:3::10"}},
	} {
		n.serve(t, others+step.services)
		now, theirs := split()
		for _, f := range now {
			if slices.Contains(step.gone, f.Answerer) {
				t.Errorf("%s, and still there: %s", step.name, f.Entry)
			}
		}
		wantSameFlows(t, step.name, before, theirs)
	}
	// Anew, and then gone altogether.
	n.serve(t, others+udp(allPods))
	open("udp", false, "10.96.0.53:7000", "[fd00:96::53]:7000", "203.0.113.3:7000", "192.0.2.1:30003", "[2001:db8::1]:30003")
	n.serve(t, others)
	now, theirs := split()
	if len(now) > 0 {
		t.Errorf("service deleted, and still there: %v", now)
	}
	wantSameFlows(t, "service deleted", before, theirs)
}

func wantSameFlows(t *testing.T, when string, before, after []lab.Flow) {
	t.Helper()
	for _, f := range before {
		if !slices.Contains(after, f) {
			t.Errorf("%s: an entry that is none of it went: %s", when, f.Entry)
		}
	}
}
