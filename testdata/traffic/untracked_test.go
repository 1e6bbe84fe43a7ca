package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

const leaveUntracked = "rules.untracked = true"

// kinds are an untracked service, and one that is masqueraded and has the same endpoints.
const kinds = `
[services.web]
clusterIPs = ["10.96.0.20", "fd00:96::20"]
ports = [{ name = "tcp", port = 80, targetPort = 7000 }, { name = "udp", port = 80, targetPort = 7000, protocol = "UDP" }]
endpoints = ` + allPods + `
[services.outer]
externalIPs = ["203.0.113.20", "2001:db8:9::20"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allPods

// firewall accepts what svcproxy's users have to, and drops the rest. FORWARD has no rule but svcproxy's: replies of
// untracked services, and of all others, pass by these.
func (n node) firewall(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"iptables", "ip6tables"} {
		icmp := map[string]string{"iptables": "icmp", "ip6tables": "ipv6-icmp"}[tool]
		n.tool(t, tool, "-P", "FORWARD", "DROP")
		n.tool(t, tool, "-A", "INPUT", "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED,UNTRACKED", "-j", "ACCEPT")
		n.tool(t, tool, "-A", "INPUT", "-p", icmp, "-j", "ACCEPT")
		n.tool(t, tool, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
		n.tool(t, tool, "-A", "INPUT", "-d", map[string]string{"iptables": "203.0.113.20", "ip6tables": "2001:db8:9::20"}[tool], "-j", "ACCEPT")
		for _, pod := range []string{"10.2.0.0/16", "fd00:2::/32"} {
			if strings.Contains(pod, ":") == (tool == "ip6tables") {
				n.tool(t, tool, "-A", "INPUT", "-s", pod, "-p", "tcp", "--dport", "80", "-j", "ACCEPT") // endpoints as clients
			}
		}
		n.tool(t, tool, "-P", "INPUT", "DROP")
	}
}

// flowsTo lists what connection tracking knows of an address, as a client's destination.
func (n node) flowsTo(t *testing.T, to netip.Addr) string {
	t.Helper()
	family := "ipv4"
	if to.Is6() {
		family = "ipv6"
	}
	return n.tool(t, "conntrack", "-L", "-f", family, "-d", to.String())
}

// Connection tracking has no entry of an untracked service. What is masqueraded works as before, and so does what the
// node asks endpoints itself.
func TestUntrackedServices(t *testing.T) {
	n := newNode(t, leaveUntracked)
	for _, tool := range []string{"iptables-restore", "ip6tables-restore"} { // the tables that svcproxy leaves, empty
		n.feed(t, "*raw\n:NONE - [0:0]\n-X NONE\nCOMMIT\n*nat\n:NONE - [0:0]\n-X NONE\nCOMMIT\n*filter\n:NONE - [0:0]\n-X NONE\nCOMMIT\n", tool)
	}
	before := n.read(t)
	n.firewall(t)
	n.start(t, kinds)
	for _, vip := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		to := netip.MustParseAddrPort(vip)
		for _, network := range []string{"tcp", "udp"} {
			wantEach(t, n.Client, network, vip)
			c, err := n.Client.Dial(network, to)
			must(t, err)
			defer c.Close()
			a, err := c.Ask()
			must(t, err)
			if a.Client.Addr() != n.Client.Addr(to.Addr()) {
				t.Errorf("%s %s: %s sees %s", network, vip, a.Backend, a.Client)
			}
		}
		if flows := n.flowsTo(t, to.Addr()); flows != "" {
			t.Errorf("tracked:\n%s", flows)
		}
		if err := n.Client.Connect(netip.AddrPortFrom(to.Addr(), 22)); err == nil {
			t.Errorf("%s: port 22 of the node is reached", vip)
		}
		// Each endpoint asks itself, too, and the node's packets have the VIP as their source.
		for _, from := range []*lab.Host{n.Backend("pod1").Host, n.Backend("pod3").Host} {
			for range 2 {
				wantSeen(t, "an endpoint", from, to, theAsker)
			}
		}
		wantSeen(t, "the node", n.Lab.Node, to, theNode)
		if flows := n.flowsTo(t, to.Addr()); !strings.Contains(flows, "src="+n.Backend("pod1").Addr(to.Addr()).String()+" ") {
			t.Errorf("an endpoint's own connections are not tracked:\n%s", flows)
		}
	}
	for _, vip := range []string{"203.0.113.20:80", "[2001:db8:9::20]:80"} {
		wantSeen(t, "masqueraded", n.Client, netip.MustParseAddrPort(vip), theNode)
	}
	for _, pod := range []string{"10.2.1.10:7000", "[fd00:2:1::10]:7000"} { // as a health check does
		ask(t, n.Lab.Node, "tcp", pod)
	}
	for _, tool := range []string{"iptables", "ip6tables"} {
		n.tool(t, tool, "-P", "INPUT", "ACCEPT")
		n.tool(t, tool, "-P", "FORWARD", "ACCEPT")
		n.tool(t, tool, "-F", "INPUT")
	}
	n.cleanUp(t, before)
	if rules := n.tool(t, "iptables-save", "-t", "raw") + n.tool(t, "ip6tables-save", "-t", "raw"); strings.Contains(rules, "KUBE") {
		t.Errorf("after cleanup:\n%s", rules)
	}
}

// The key changes under open connections, and none is lost: a connection that is tracked or was not goes on. A start
// with the other value finds and changes the rules, too.
func TestUntrackedChangesUnderTraffic(t *testing.T) {
	n := newNode(t, "")
	n.start(t, kinds)
	l := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		l.put(t, n.Client, to)
	}
	l.put(t, n.Lab.Node, "10.96.0.20:80")
	l.goOn(t, 100)
	for i, main := range []string{leaveUntracked, "", leaveUntracked, ""} {
		mark := n.Log.Len()
		if i < 2 {
			must(t, n.Configure(main))
		} else {
			n.restart(t, main)
		}
		n.synced(t, mark)
		for _, tool := range []string{"iptables-save", "ip6tables-save"} {
			if rules := n.tool(t, tool); strings.Contains(rules, "--notrack") != (main != "") {
				t.Errorf("%q:\n%s", main, rules)
			}
		}
		if sets := n.tool(t, "ipset", "list", "-n"); strings.Contains(sets, "UNTRACKED") != (main != "") {
			t.Errorf("%q:\n%s", main, sets)
		}
		l.goOn(t, 100)
	}
	l.wantServed(t)
}

// Replies of an endpoint that drains are still untracked, and filter FORWARD still accepts them. The last connection
// takes the endpoint's entries with it.
func TestUntrackedEndpointDrains(t *testing.T) {
	n := newNode(t, leaveUntracked)
	n.tool(t, "iptables", "-P", "FORWARD", "DROP")
	n.start(t, clusterIP("web", "10.96.0.20", `["10.2.1.10", "10.2.2.10"]`))
	kept := dialBackend(t, n, netip.MustParseAddrPort("10.96.0.20:80"), "pod1")
	const entry = "10.2.1.10,tcp:7000"
	for _, left := range []string{`["10.2.2.10"]`, `[]`} {
		n.serve(t, clusterIP("web", "10.96.0.20", left))
		wantStill(t, kept, "pod1")
		if set := n.tool(t, "ipset", "list", "KUBE-UNTRACKED-REPLY"); !strings.Contains(set, entry) {
			t.Errorf("while it drains:\n%s", set)
		}
	}
	mark := n.Log.Len()
	kept.Reset()
	must(t, lab.Eventually(patience, func() error {
		if set := n.tool(t, "ipset", "list", "KUBE-UNTRACKED-REPLY"); strings.Contains(set, entry) {
			return fmt.Errorf("%s is still there", entry)
		}
		return nil
	}))
	if said := n.Log.String()[mark:]; strings.Contains(said, "drift") {
		t.Errorf("the end of a drain is no drift:\n%s", said)
	}
	mark = n.Log.Len()
	must(t, n.Configure(""))
	n.synced(t, mark)
	if rules := n.tool(t, "iptables-save"); strings.Contains(rules, "--notrack") {
		t.Errorf("with the key off:\n%s", rules)
	}
}

// What goes to backends directly or in tunnels is untracked. Replies pass the node by, so table raw has no rule for
// them. The same service is tracked again when it masquerades.
func TestUntrackedPastTheNode(t *testing.T) {
	n := newForwardingNode(t, "ipvs.guePort = 6081\n"+leaveUntracked+"\n")
	for i, method := range []string{"direct", "ipip", "gue", "masquerade"} {
		if i == 0 {
			n.start(t, forwarded(method))
		} else {
			n.serve(t, forwarded(method))
		}
		n.wantForwarded(t, method)
		for _, vip := range forwardVIPs {
			if flows := n.flowsTo(t, vip); (flows != "") != (method == "masquerade") {
				t.Errorf("%s: tracked to %s: %q", method, vip, flows)
			}
		}
		for _, tool := range []string{"iptables-save", "ip6tables-save"} {
			rules := n.tool(t, tool, "-t", "raw")
			if strings.Contains(rules, "KUBE-UNTRACKED ") != (method != "masquerade") || strings.Contains(rules, "UNTRACKED-REPLY") {
				t.Errorf("%s: %s", method, rules)
			}
		}
	}
}
