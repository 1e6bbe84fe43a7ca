package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A removed endpoint keeps its connections and gets no new ones. If it returns
// it serves at once; otherwise it is deleted with its last connection.
func TestRemovedEndpointDrains(t *testing.T) {
	n := newNode(t, "")
	both := clusterIP("web", "10.96.0.20", `["10.2.1.10", "10.2.2.10"]`)
	one := clusterIP("web", "10.96.0.20", `["10.2.2.10"]`)
	n.start(t, both)
	vip := netip.MustParseAddrPort("10.96.0.20:80")

	kept := dialBackend(t, n, vip, "pod1")
	for range 2 {
		n.serve(t, one)
		wantStill(t, kept, "pod1")
		for range 4 {
			if a := ask(t, n.Client, "tcp", vip.String()); a.Backend != "pod2" {
				t.Errorf("a new connection went to %q while it drains", a.Backend)
			}
		}
		if w := weightOf(t, n, vip.String(), "10.2.1.10:7000"); w != "0" {
			t.Errorf("draining at weight %q", w)
		}
		n.serve(t, both)
		wantStill(t, kept, "pod1")
		if w := weightOf(t, n, vip.String(), "10.2.1.10:7000"); w != "1" {
			t.Errorf("back at weight %q", w)
		}
	}

	// A reset is forgotten in 10 s, an orderly end (TIME_WAIT) in two minutes.
	n.serve(t, one)
	kept.Reset()
	must(t, lab.Eventually(patience, func() error {
		if w := weightOf(t, n, vip.String(), "10.2.1.10:7000"); w != "" {
			return fmt.Errorf("10.2.1.10 is still there, at weight %s", w)
		}
		return nil
	}))
}

// dialBackend opens connections until one is with the backend.
func dialBackend(t *testing.T, n node, vip netip.AddrPort, name string) *lab.Conn {
	t.Helper()
	for range 40 { // mode iptables chooses at random
		c, err := n.Client.Dial("tcp", vip)
		must(t, err)
		a, err := c.Ask()
		must(t, err)
		if a.Backend == name {
			t.Cleanup(func() { c.Close() })
			return c
		}
		c.Reset()
	}
	t.Fatalf("40 connections and none with %s", name)
	return nil
}

func wantStill(t *testing.T, c *lab.Conn, name string) {
	t.Helper()
	if a, err := c.Ask(); err != nil || a.Backend != name {
		t.Fatalf("the open connection: %v, %v", a, err)
	}
}

// weightOf is the weight of a virtual server's real server of TCP, see weight.
func weightOf(t *testing.T, n node, virtual, real string) string {
	t.Helper()
	return n.weight(t, "tcp", virtual, real)
}

// weight is that of a virtual server's real server as ipvsadm prints it, "" if it is not
// there. In mode iptables it is that of the endpoint among those that new connections are
// given to, "0" if only tracked connections are left. In mode userspace it is that of weights.
func (n node) weight(t *testing.T, network, virtual, real string) string {
	t.Helper()
	switch n.Mode {
	case "iptables", "nftables":
		return n.weightByRules(t, network, netip.MustParseAddrPort(virtual), netip.MustParseAddrPort(real))
	case "userspace":
		weight := n.weightOf(t, lab.Real{Network: network, Virtual: netip.MustParseAddrPort(virtual), Addr: netip.MustParseAddrPort(real)})
		if weight == absent {
			return ""
		}
		return fmt.Sprint(weight)
	}
	flag := map[string]string{"tcp": "-t", "udp": "-u", "sctp": "--sctp-service"}[network]
	for line := range strings.Lines(n.tool(t, "ipvsadm", "-Sn")) {
		f := strings.Fields(line)
		if len(f) > 7 && f[1] == flag && f[2] == virtual && f[4] == real {
			return f[7]
		}
	}
	return ""
}

func (n node) weightByRules(t *testing.T, network string, virtual, real netip.AddrPort) string {
	t.Helper()
	weights, err := n.Lab.Node.Chosen()
	must(t, err)
	if weight, there := weights[lab.Real{Network: network, Virtual: virtual, Addr: real}]; there {
		return fmt.Sprint(weight)
	}
	flows, err := n.Lab.Node.Tracked()
	must(t, err)
	for _, f := range flows {
		if f.Proto == network && f.To == fmt.Sprintf("%s,%d", virtual.Addr(), virtual.Port()) && f.Answerer == real.Addr().String() {
			return "0"
		}
	}
	return ""
}
