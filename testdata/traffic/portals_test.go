package traffic

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Another program listens on a service's ports, at all addresses. In mode userspace the relay then listens on ports of
// portRange, and rules redirect what is for the VIPs and the node port there. The other program keeps the node's own
// addresses. A restart changes nothing, and cleanup leaves no rule.
func TestPortals(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"), kerneltest.Tool("ip6tables"))
	n := newRelayNode(t, modeUserspace+"portRange = \"20000-20999\"\n")
	other := n.occupy(t, 80, 30080)
	defer other()
	before := n.rules(t)
	web := strings.Replace(web, "[services.web]\n", "[services.web]\ntakeHostPorts = true\n", 1) // its node port, too
	n.start(t, web)
	serves := func(when string) {
		t.Helper()
		n.wantWeb(t, when)
		for _, to := range []string{"192.0.2.1:30080", "[2001:db8::1]:30080"} {
			ask(t, n.Client, "tcp", to)
			ask(t, n.Client, "udp", to)
		}
		for _, to := range everywhere {
			ask(t, n.Lab.Node, "tcp", to)
		}
		n.wantOther(t, "192.0.2.1:80")
		n.wantOther(t, "[2001:db8::1]:80")
	}
	serves("at the start")
	served := n.rules(t)
	n.healthy(t)
	n.wantPortals(t, served)
	planned := func() {
		t.Helper()
		if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
			t.Errorf("plan: exit code %d, %v\n%s", code, err, out)
		}
	}
	planned()

	mark := n.Log.Len()
	n.restart(t, modeUserspace+"portRange = \"20000-20999\"\n")
	n.synced(t, mark)
	serves("after a restart")
	n.wantPortals(t, n.rules(t))
	planned()

	n.serve(t, strings.ReplaceAll(web, "port = 80,", "port = 81,"))
	if left := n.rules(t); strings.Contains(left, "--dport 80 ") || !strings.Contains(left, "--dport 30080 ") {
		t.Errorf("the rules of a port that is no longer served:\n%s", left)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: exit code %d, %v\n%s", code, err, out)
	}
	if now := n.rules(t); now != before {
		t.Errorf("cleanup left\n%s\nbefore there was\n%s", now, before)
	}
}

// Without iptables a port that another program has is not served, and the log says why. The rest is.
func TestPortalsNeedIPTables(t *testing.T) {
	n := newRelayNode(t, modeUserspace)
	defer n.occupy(t, 80)()
	must(t, n.Serve(web))
	must(t, n.Start(hiding(t, "iptables", "ip6tables")...))
	if _, err := n.Wait(0, `cannot redirect packets: .*" virtual=.*10\.96\.0\.20:80.*iptables`); err != nil {
		t.Fatal(err)
	}
	n.wantAnswer(t, "192.0.2.1:30080")
	must(t, n.Stop())
}

// said is what the other program says.
const said = "another program\n"

// occupy has another program listen on some ports of all of the node's addresses.
func (n node) occupy(t *testing.T, ports ...int) (end func()) {
	t.Helper()
	var all []io.Closer
	for _, port := range ports {
		l, err := n.Lab.Node.Listen(port)
		must(t, err)
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				io.WriteString(c, said)
				c.Close()
			}
		}()
		var datagrams net.PacketConn
		must(t, n.Lab.Node.Do(func() (err error) {
			datagrams, err = net.ListenPacket("udp", net.JoinHostPort("::", strconv.Itoa(port)))
			return err
		}))
		all = append(all, l, datagrams)
	}
	return func() {
		for _, c := range all {
			c.Close()
		}
	}
}

// wantOther wants the other program to answer.
func (n node) wantOther(t *testing.T, at string) {
	t.Helper()
	c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(at))
	must(t, err)
	defer c.Close()
	if text, err := io.ReadAll(c.Conn); err != nil || string(text) != said {
		t.Errorf("%s: %q, %v", at, text, err)
	}
}

// rules are those of table nat, of both families.
func (n node) rules(t *testing.T) string {
	t.Helper()
	var rules strings.Builder
	for _, tool := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(n.tool(t, tool, "-t", "nat")) {
			if strings.HasPrefix(line, "-A") || strings.HasPrefix(line, ":KUBE") {
				rules.WriteString(line)
			}
		}
	}
	return rules.String()
}

var redirects = regexp.MustCompile(`-A KUBE-PORTALS-(CONTAINER|HOST) -d (\S+)/\d+ -p (tcp|udp) .*--dport (\d+) -j DNAT --to-destination (\S+)`)

// wantPortals wants each address of web to have a rule for packets from elsewhere and one for the node's own, to a port of
// the range.
func (n node) wantPortals(t *testing.T, rules string) {
	t.Helper()
	found := map[string]int{}
	for _, m := range redirects.FindAllStringSubmatch(rules, -1) {
		to := netip.MustParseAddrPort(m[5])
		if to.Addr().String() != m[2] || to.Port() < 20000 || to.Port() > 20999 {
			t.Errorf("a redirection to %v: %s", to, m[0])
		}
		found[fmt.Sprintf("%s %s", m[3], net.JoinHostPort(m[2], m[4]))]++
	}
	for _, to := range append([]string{"192.0.2.1:30080", "[2001:db8::1]:30080"}, everywhere...) {
		for _, proto := range []string{"tcp", "udp"} {
			if n := found[proto+" "+to]; n != 2 {
				t.Errorf("%d rules for %s over %s, want 2\n%s", n, to, proto, rules)
			}
		}
	}
	for _, jump := range []string{"-A PREROUTING -m comment --comment \"handle ClusterIPs; NOTE: this must be before the NodePort rules\" -j KUBE-PORTALS-CONTAINER\n",
		"-A OUTPUT -m comment --comment \"handle ClusterIPs; NOTE: this must be before the NodePort rules\" -j KUBE-PORTALS-HOST\n"} {
		if strings.Count(rules, jump) != 2 {
			t.Errorf("want in both families: %s", jump)
		}
	}
}
