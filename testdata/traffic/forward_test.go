package traffic

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// forwardVIPs are those of the service in forwarded.
var forwardVIPs = []netip.Addr{netip.MustParseAddr("198.51.100.80"), netip.MustParseAddr("2001:db8:80::80")}

// forwarded is a service whose endpoints get its packets by a method, "" for the default.
func forwarded(method string) string {
	key := ""
	if method != "" {
		key = fmt.Sprintf("forward = %q\n", method)
	}
	return `[services.web]
type = "LoadBalancer"
` + key + `loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
ports = [
  { name = "tcp", port = 7000 },
  { name = "udp", port = 7000, protocol = "UDP" },
]
endpoints = ` + allPods + "\n"
}

// needTunnels skips where servers cannot unwrap tunnels.
func needTunnels(t *testing.T) {
	t.Helper()
	needKernel(t)
	for _, module := range []string{"ipip", "ip6_tunnel", "fou"} {
		if out, err := exec.Command("modprobe", module).CombinedOutput(); err != nil {
			t.Skipf("servers cannot unwrap tunnels: modprobe %s: %v: %s", module, err, out)
		}
	}
}

// newForwardingNode prepares a lab whose backends have the VIPs, unwrap tunnels and answer the client past the node.
func newForwardingNode(t *testing.T, main string) node {
	t.Helper()
	needTunnels(t)
	n := newNode(t, main)
	must(t, n.Bypass())
	for _, b := range n.Backends {
		must(t, b.Own(forwardVIPs...))
		must(t, b.Unwrap(6081))
	}
	return n
}

// Direct routing hands a packet to the next hop. A gateway that has the VIP answers itself, and explain and doctor say that
// it must have the VIP.
func TestDirectRoutingOverAGateway(t *testing.T) {
	n := newForwardingNode(t, "")
	n.start(t, strings.Replace(forwarded("direct"), allPods, `["10.2.1.10"]`, 1))
	vip := netip.AddrPortFrom(forwardVIPs[0], lab.LinePort)
	if a := ask(t, n.Client, "tcp", vip.String()); a.Backend != "pod1" {
		t.Errorf("without a gateway %s answers", a.Backend)
	}
	must(t, n.Lab.Node.IP("route add 10.2.1.10/32 via 10.2.2.10"))
	if a := ask(t, n.Client, "tcp", vip.String()); a.Backend != "pod2" {
		t.Errorf("with the gateway pod2 %s answers", a.Backend)
	}
	if a := n.explain(t, vip.String(), "--from", n.Client.Addr(vip.Addr()).String()); !strings.Contains(a.Sentence, "the gateway 10.2.2.10 has 198.51.100.80") {
		t.Errorf("explain: %s", a.Sentence)
	}
	if out, _, err := n.Command("doctor"); err != nil || !strings.Contains(out, "which must have the VIPs itself: 10.2.1.10 of web behind 10.2.2.10") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// wantForwarded asks at each VIP, wants every backend to answer, and checks whom it sees.
func (n node) wantForwarded(t *testing.T, method string) {
	t.Helper()
	for _, vip := range forwardVIPs {
		for _, network := range []string{"tcp", "udp"} {
			to, found := netip.AddrPortFrom(vip, lab.LinePort), map[string]bool{}
			for range 60 {
				a, err := n.Client.Ask(network, to)
				if err != nil {
					t.Fatalf("%s: %s over %s: %v", method, to, network, err)
				}
				want := n.Client.Addr(vip)
				if method == "masquerade" {
					want = linkTo(a.Backend, vip)
				}
				if a.Client.Addr() != want {
					t.Errorf("%s: %s over %s: %s sees %s, want %s", method, to, network, a.Backend, a.Client, want)
				}
				if found[a.Backend] = true; len(found) == 3 {
					break
				}
			}
			if len(found) != 3 {
				t.Errorf("%s: %s over %s reached %v alone", method, to, network, found)
			}
		}
	}
}

// asShown is how ipvsadm shows a method.
var asShown = map[string]string{"masquerade": "Masq n/a", "direct": "Route n/a", "ipip": "Tunnel ipip", "gue": "Tunnel gue:6081:-c"}

// wantMethod wants every real server of the IPVS table to have a method.
func (n node) wantMethod(t *testing.T, method string) {
	t.Helper()
	out, reals := n.tool(t, "ipvsadm", "-Ln", "--tun-info"), 0
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 4 && f[0] == "->" && f[1] != "RemoteAddress:Port" {
			if reals++; f[2]+" "+f[3] != asShown[method] {
				t.Errorf("want %s: %s", asShown[method], line)
			}
		}
	}
	if reals != 12 {
		t.Errorf("%d real servers, want 12:\n%s", reals, out)
	}
}

// packetsSeen is how many packets of clients and of endpoints the node has balanced, over all virtual servers.
func (n node) packetsSeen(t *testing.T) (in, out int) {
	t.Helper()
	for line := range strings.Lines(n.tool(t, "ipvsadm", "-Ln", "--stats", "--exact")) {
		if f := strings.Fields(line); len(f) > 5 && slices.Contains([]string{"TCP", "UDP"}, f[0]) {
			i, err := strconv.Atoi(f[3])
			must(t, err)
			o, err := strconv.Atoi(f[4])
			must(t, err)
			in, out = in+i, out+o
		}
	}
	return in, out
}

// wantReplies wants the node to see replies, or none. The kernel adds up packets every two seconds.
func (n node) wantReplies(t *testing.T, method string, in, out int) {
	t.Helper()
	replies := 0
	must(t, lab.Eventually(patience, func() error {
		now, replied := n.packetsSeen(t)
		if replies = replied - out; now == in || replies == 0 && method == "masquerade" {
			return fmt.Errorf("%s: %d packets of clients, %d of replies", method, now-in, replies)
		}
		return nil
	}))
	if replies > 0 && method != "masquerade" {
		t.Errorf("%s: the node saw %d packets of replies", method, replies)
	}
}

// Each method is served in both families, over TCP and UDP, and read back as it was written. But for masquerading the
// backends see the client, and the node sees no reply.
func TestForwardingMethods(t *testing.T) {
	n := newForwardingNode(t, "ipvs.guePort = 6081\n")
	for i, method := range []string{"direct", "ipip", "gue", "masquerade"} {
		if i == 0 {
			n.start(t, forwarded(method))
		} else {
			n.serve(t, forwarded(method))
		}
		n.wantMethod(t, method)
		in, out := n.packetsSeen(t)
		wire, err := n.Backends[0].Capture()
		must(t, err)
		n.wantForwarded(t, method)
		wantWrapped(t, method, wire.Stop())
		n.wantReplies(t, method, in, out)
		n.healthy(t)
		must(t, n.Stop())
		if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
			t.Errorf("%s: plan after it: exit code %d, %v\n%s", method, code, err, out)
		}
		must(t, n.Start())
		n.wantForwarded(t, method)
	}
}

// A packet of a full link does not fit into a tunnel. The client is told, and sends smaller ones.
func TestTunnelsTellTheClientTheirMTU(t *testing.T) {
	n := newForwardingNode(t, "ipvs.guePort = 6081\n")
	for i, method := range []string{"ipip", "gue"} {
		if i == 0 {
			n.start(t, forwarded(method))
		} else {
			n.serve(t, forwarded(method))
		}
		for _, vip := range forwardVIPs {
			c, err := n.Client.Dial("tcp", netip.AddrPortFrom(vip, lab.LinePort))
			must(t, err)
			_, err = c.Write([]byte(strings.Repeat("x", 4000)))
			must(t, err)
			if _, err := c.Ask(); err != nil {
				t.Errorf("%s to %s: a long line: %v", method, vip, err)
			}
			want := fmt.Sprintf(" mtu %d ", 1500-tunnelBytes(method, vip))
			if out, err := n.Client.Run("ip", "route", "get", vip.String()); err != nil || !strings.Contains(out, want) {
				t.Errorf("%s to %s: the client did not learn%s: %s%v", method, vip, want, out, err)
			}
			c.Close()
		}
	}
}

// The method of a service changes while connections are open. They go on by the method that they began with, unless
// the change is to or from direct: this ends them, or the kernel would send new ones the wrong way.
func TestForwardingMethodChangesUnderConnections(t *testing.T) {
	n := newForwardingNode(t, "ipvs.guePort = 6081\n")
	n.start(t, forwarded("masquerade"))
	var open []*lab.Conn
	last := "masquerade"
	for _, method := range []string{"masquerade", "ipip", "gue", "masquerade", "direct", "masquerade", "direct", "gue", "direct"} {
		if method != last {
			n.serve(t, forwarded(method))
		}
		n.wantMethod(t, method)
		ends := (method == "direct") != (last == "direct")
		for i, c := range open {
			if _, err := c.Ask(); (err != nil) != ends {
				t.Errorf("%s after %s: connection %d: %v, want its end %t", method, last, i, err, ends)
			}
		}
		if ends {
			open = nil
		}
		n.wantForwarded(t, method)
		for range 3 {
			for _, vip := range forwardVIPs {
				c, err := n.Client.Dial("tcp", netip.AddrPortFrom(vip, lab.LinePort))
				must(t, err)
				defer c.Close()
				open = append(open, c)
			}
		}
		last = method
	}
}

// The node's default is for services that name no method and keep their ports.
func TestDefaultForwardingMethod(t *testing.T) {
	// Replies of the service that is masqueraded must not take the backends' way past the node.
	const masqueraded = "ipvs.guePort = 6081\niptables.masqueradeAll = true\n"
	n := newForwardingNode(t, masqueraded+"ipvs.forward = \"ipip\"\n")
	n.start(t, forwarded("")+clusterIP("moved", "10.96.0.20", allV4))
	n.wantForwarded(t, "ipip")
	out := n.tool(t, "ipvsadm", "-Ln")
	if strings.Count(out, "Tunnel") != 12 || strings.Count(out, "Masq") != 3 {
		t.Errorf("the table:\n%s", out)
	}
	ask(t, n.Client, "tcp", "10.96.0.20:80")
	n.configure(t, masqueraded+"ipvs.forward = \"direct\"\n")
	n.wantForwarded(t, "direct")
	if out := n.tool(t, "ipvsadm", "-Ln"); strings.Count(out, "Route") != 12 || strings.Count(out, "Masq") != 3 {
		t.Errorf("the table with another default:\n%s", out)
	}
}

// Connection tracking sees one direction of what is forwarded directly: later packets are INVALID. Our rules pass them,
// and package kernel/packet says the same.
func TestDirectPacketsAreInvalidToConnectionTracking(t *testing.T) {
	n := newForwardingNode(t, "")
	n.start(t, forwarded("direct"))
	n.tool(t, "iptables", "-I", "INPUT", "-p", "tcp", "-d", "198.51.100.80", "-m", "conntrack", "--ctstate", "INVALID")
	c, err := n.Client.Dial("tcp", netip.MustParseAddrPort("198.51.100.80:7000"))
	must(t, err)
	defer c.Close()
	for range 5 {
		_, err := c.Ask()
		must(t, err)
	}
	rule, _, _ := strings.Cut(n.tool(t, "iptables", "-vnxL", "INPUT", "1"), "\n")
	if f := strings.Fields(rule); len(f) == 0 || f[0] == "0" {
		t.Errorf("no packet was INVALID: %s", rule)
	}
}
