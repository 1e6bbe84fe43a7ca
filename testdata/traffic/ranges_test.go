package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// ranged are services of one load balancer IP of each family: the first's ranges
// hold the node, the second's do not, the third has none.
const ranged = `
[services.ranged]
type = "LoadBalancer"
externalIPs = ["203.0.113.9"]
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
loadBalancerSourceRanges = ["10.0.0.0/8", "192.0.2.50/32", "192.0.2.1/32", "2001:db8::50/128", "2001:db8::1/128"]
ports = [
  { name = "tcp", port = 80, targetPort = 7000 },
  { name = "udp", port = 80, targetPort = 7000, protocol = "UDP" },
]
endpoints = ` + allPods + `
[services.without-the-node]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
loadBalancerSourceRanges = ["192.0.2.50/32", "2001:db8::50/128"]
ports = [{ port = 81, targetPort = 7000 }]
endpoints = ` + allPods + `
[services.open]
type = "LoadBalancer"
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
ports = [{ port = 82, targetPort = 7000 }]
endpoints = ` + allPods

// Clients at another host, each with an address of its own.
var (
	inSlash8   = netip.MustParseAddr("10.9.9.9")
	inSlash32  = netip.MustParseAddr("192.0.2.50")
	inSlash128 = netip.MustParseAddr("2001:db8::50")
	outside4   = netip.MustParseAddr("192.0.2.51")
	outside6   = netip.MustParseAddr("2001:db8::51")
)

// newRangedNode serves the ranged services and gives the client its addresses.
func newRangedNode(t *testing.T, main string) node {
	t.Helper()
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, main)
	for _, a := range []netip.Addr{inSlash8, inSlash32, inSlash128, outside4, outside6} {
		must(t, n.Client.IP(fmt.Sprintf("addr add %s/%d dev eth0 nodad", a, a.BitLen())))
	}
	must(t, n.Lab.Node.IP(fmt.Sprintf("route add %s/32 via %s", inSlash8, n.Client.V4)))
	must(t, n.Serve(ranged))
	return n
}

const (
	in   = "in"
	lost = "lost" // nothing comes back: who may not know that there is something gets no refusal
)

func TestSourceRanges(t *testing.T) {
	n := newRangedNode(t, "")
	n.start(t, ranged)
	own := netip.Addr{}
	for _, c := range []struct {
		host *lab.Host
		from netip.Addr
		to   string
		want string
	}{
		{n.Client, inSlash8, "198.51.100.80:80", in},
		{n.Client, inSlash32, "198.51.100.80:80", in},
		{n.Client, inSlash128, "[2001:db8:80::80]:80", in},
		{n.Client, outside4, "198.51.100.80:80", lost},
		{n.Client, outside6, "[2001:db8:80::80]:80", lost},
		{n.Backend("pod2").Host, own, "198.51.100.80:80", in},
		{n.Lab.Node, own, "198.51.100.80:80", in},
		{n.Lab.Node, own, "[2001:db8:80::80]:80", in},
		{n.Client, inSlash8, "198.51.100.80:81", lost},
		{n.Client, inSlash32, "198.51.100.80:81", in},
		{n.Backend("pod2").Host, own, "198.51.100.80:81", lost},
		{n.Lab.Node, own, "198.51.100.80:81", lost},
		{n.Lab.Node, own, "[2001:db8:80::80]:81", lost},
		{n.Client, outside4, "198.51.100.80:82", in},
		{n.Client, outside6, "[2001:db8:80::80]:82", in},
		{n.Lab.Node, own, "198.51.100.80:82", in},
		{n.Client, outside4, "203.0.113.9:80", in}, // ranges are for load balancer IPs alone
	} {
		limit := lab.AskLimit
		if c.want == lost {
			limit = 500 * time.Millisecond
		}
		got := c.host.Try(c.from, netip.MustParseAddrPort(c.to), limit)
		if c.want == in && got != nil || c.want == lost && !errors.Is(got, lab.ErrSilence) {
			t.Errorf("%s %s asks %s: %v, want %s", c.host.Name, c.from, c.to, got, c.want)
		}
	}
	n.healthy(t)
}

// While svcproxy looks and finds nothing to do it writes nothing, so that there is
// no moment in which somebody allowed is not. Flows of datagrams through the
// ranges, of which none may be lost, run throughout.
func TestIdleChecksLoseNobodyAllowed(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	const checks = 10
	n := newRangedNode(t, `ipvs.syncPeriod = "250ms"`)
	must(t, n.StartTracedSends())
	n.synced(t, 0)
	flows := []*lab.Conn{
		flow(t, n.Client, inSlash8, "198.51.100.80:80"),
		flow(t, n.Client, inSlash32, "198.51.100.80:80"),
		flow(t, n.Client, inSlash128, "[2001:db8:80::80]:80"),
		flow(t, n.Lab.Node, netip.Addr{}, "198.51.100.80:80"),
	}
	before, err := n.Trace()
	must(t, err)

	asked, first := 0, len(fullReads(before))
	begin, pace := time.Now(), time.NewTicker(5*time.Millisecond) // leaves svcproxy the time to look
	defer pace.Stop()
	for done := first; done <= first+checks; <-pace.C {
		for _, c := range flows {
			if _, err := c.Ask(); err != nil {
				t.Fatalf("datagram %d from %s to %s: %v", asked, c.LocalAddr(), c.RemoteAddr(), err)
			}
			asked++
		}
		done, err = n.Traced(fullRead)
		must(t, err)
		if took := time.Since(begin); took > 5*time.Minute {
			t.Fatalf("%d of %d checks in %v", done-first, checks, took)
		}
	}
	all, err := n.Trace()
	must(t, err)
	idle := all[len(before):]
	for _, w := range idle.Writes() {
		t.Errorf("written: %s", w.Type)
	}
	for _, tool := range []string{"iptables", "ip6tables"} {
		for line := range strings.Lines(n.tool(t, tool, "-nvxL", "KUBE-SOURCE-RANGES-FIREWALL")) {
			if f := strings.Fields(line); len(f) > 2 && f[2] == "DROP" && f[0] != "0" {
				t.Errorf("%s has dropped %s packets: %s", tool, f[0], line)
			}
		}
	}
	t.Logf("%d datagrams during %d checks", asked, len(fullReads(idle)))
}

// flow is a UDP socket of one client.
func flow(t *testing.T, h *lab.Host, from netip.Addr, to string) *lab.Conn {
	t.Helper()
	c, err := h.DialFrom("udp", from, netip.MustParseAddrPort(to))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
