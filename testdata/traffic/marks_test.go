package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// markRange has a node's own rules mark packets to some ports of a VIP, of TCP and UDP.
func (n node) markRange(t *testing.T, tool, vip, ports string, mark int) {
	t.Helper()
	for _, proto := range []string{"tcp", "udp"} {
		n.tool(t, tool, "-t", "mangle", "-A", "PREROUTING", "-d", vip, "-p", proto, "--dport", ports, "-j", "MARK", "--set-mark", fmt.Sprint(mark))
	}
}

// Packets that rules of the administrator mark are balanced by their mark, in both families, over TCP and UDP, also to ports of a
// VIP that another service has. Backends see the client. Marks of other programs are left alone. A range of ports is served without marks.
func TestFirewallMarks(t *testing.T) {
	n := newNode(t, "")
	const web = "[services.web]\nclusterIP = \"10.96.0.20\"\nport = 80\nbackends = [\"10.2.1.10\"]\n"
	const ranged = "[services.ranged]\nclusterIP = \"10.96.0.21\"\nports = [\"6990-7010\", { port = \"6990-7010\", protocol = \"UDP\" }]\nbackends = [\"10.2.1.10\", \"10.2.2.10\", \"10.2.3.10\"]\n"
	n.tool(t, "ipvsadm", "-A", "-f", "9", "-s", "rr")
	n.tool(t, "ip", "route", "add", "local", "2001:db8:80::80", "dev", "lo")
	n.markRange(t, "iptables", "10.96.0.20", "7000:7010", 7)
	n.markRange(t, "ip6tables", "2001:db8:80::80", "7000:7010", 7)
	n.markRange(t, "iptables", "10.96.0.20", "5000:5100", 8)
	n.tool(t, "ip", "route", "add", "local", "10.96.0.23", "dev", "lo")
	for _, proto := range []string{"tcp", "udp"} { // all ports of a VIP
		n.tool(t, "iptables", "-t", "mangle", "-A", "PREROUTING", "-d", "10.96.0.23", "-p", proto, "-j", "MARK", "--set-mark", "8")
	}
	n.start(t, web+ranged+"[services.same]\nfwmark = 7\nbackends = "+allPods+"\n[services.moved]\nfwmark = 8\nbackends = [\"10.2.1.10:7000\", \"10.2.2.10:7000\"]\n")
	for _, c := range []struct {
		to    string
		wants int
	}{{"10.96.0.20:7000", 3}, {"[2001:db8:80::80]:7000", 3}, {"10.96.0.20:5000", 2}, {"10.96.0.20:5077", 2}, {"10.96.0.23:1", 2}, {"10.96.0.23:65535", 2}, {"10.96.0.21:7000", 3}} {
		for _, network := range []string{"tcp", "udp"} {
			to, found := netip.MustParseAddrPort(c.to), map[string]bool{}
			for range 20 * c.wants {
				a, err := n.Client.Ask(network, to)
				if err != nil {
					t.Fatalf("%s over %s: %v", to, network, err)
				}
				if a.Client.Addr() != n.Client.Addr(to.Addr()) {
					t.Errorf("%s over %s: %s sees %s", to, network, a.Backend, a.Client)
				}
				if found[a.Backend] = true; len(found) == c.wants {
					break
				}
			}
			if len(found) != c.wants {
				t.Errorf("%s over %s reached %v, want %d backends", to, network, found, c.wants)
			}
		}
	}
	if err := n.Client.Connect(netip.MustParseAddrPort("10.96.0.20:5101")); err == nil {
		t.Error("a port behind the range is open")
	}
	n.wantExplained(t, "--mark", "7", "10.96.0.20:7000")
	n.wantExplained(t, "10.96.0.20:7000") // the rules say which mark
	n.serve(t, web)
	if out := n.tool(t, "ipvsadm", "-Ln"); strings.Count(out, "FWM") != 1 || !strings.Contains(out, "FWM  9 ") {
		t.Errorf("want the mark of the other program alone:\n%s", out)
	}
}

// wantExplained wants explain to say that a packet is served.
func (n node) wantExplained(t *testing.T, args ...string) {
	t.Helper()
	out, code, err := n.Command("explain", args...)
	if must(t, err); code != 0 || !strings.HasPrefix(out, "served by") {
		t.Errorf("explain %q: %d\n%s", args, code, out)
	}
}
