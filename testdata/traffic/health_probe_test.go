package traffic

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Probes have the mark, the source address and the interface that their check
// gives. The node's firewall refuses all others.
func TestProbesHaveTheirMarkSourceAndInterface(t *testing.T) {
	n := newCheckedNode(t, "health.onAllDown = \"closed\"")
	must(t, n.Lab.Node.IP("addr add 198.18.9.9/32 dev lo"))
	for _, rule := range []string{"-m mark --mark 0x77 -j ACCEPT", "-s 198.18.9.9 -j ACCEPT", "-j REJECT --reject-with tcp-reset"} {
		n.tool(t, "iptables", strings.Fields("-A OUTPUT -p tcp --syn --dport 7000 "+rule)...)
	}
	check := func(more string) string { return "{ type = \"tcp\", " + patient + more + " }" }
	one := `["10.2.1.10"]`
	up := []checkedService{
		{name: "marked", vip: "10.96.10.1", check: check(", mark = 0x77")},
		{name: "source", vip: "10.96.10.2", check: check(`, source = "198.18.9.9"`)},
		{name: "link", vip: "10.96.10.3", port: lab.HTTPPort, endpoints: one, check: check(`, interface = "pod1"`)},
	}
	down := []checkedService{
		{name: "plain", vip: "10.96.10.4", endpoints: one, check: check("")},
		{name: "other-link", vip: "10.96.10.5", port: lab.HTTPPort, endpoints: one, check: check(`, interface = "pod2"`)},
	}
	n.start(t, textOf(up)+textOf(down))
	n.becomes(t, patience, false, realsOf(down, 1)...)
	probes()
	n.becomes(t, 0, true, realsOf(up, 1)...)
}

// Conntrack has one entry for a target, however often it is probed. A firewall that lets in nothing but answers does
// not keep an endpoint down that was refused, or heard nothing, before.
func TestProbesOfATargetShareAConntrackEntry(t *testing.T) {
	n := newCheckedNode(t, "")
	s := checkedService{name: "web", vip: "10.96.10.9", port: 7950, check: `{ type = "tcp", interval = "500ms", timeout = "5s", fastInterval = "100ms", downInterval = "200ms" }`}
	ports := n.openPorts(t, s.port, lines)
	for _, rule := range []string{"-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-A INPUT -i lo -j ACCEPT", "-A INPUT -p icmp -j ACCEPT",
		"-A INPUT -m conntrack --ctstate INVALID -j DROP", "-A INPUT -p tcp --sport 7950 -j DROP"} {
		n.tool(t, "iptables", strings.Fields(rule)...)
	}
	n.start(t, s.text())
	n.allUp(t, 3)
	for _, fault := range []struct {
		name       string
		fail, heal func() error
	}{
		{"refused", ports[0].Close, ports[0].Open},
		{"dropped", func() error { return ports[1].Drop(true) }, func() error { return ports[1].Drop(false) }},
	} {
		must(t, fault.fail())
		if fault.name == "refused" { // a starved machine does not believe a timeout
			n.becomes(t, patience, false, s.real(1))
		} else {
			probes()
		}
		must(t, fault.heal())
		n.becomes(t, patience, true, s.real(1), s.real(2))
		n.allUp(t, 3)
	}
	probes()
	// pod3 was well all the time.
	out := n.tool(t, "conntrack", "-L", "-p", "tcp", "--orig-dst", s.pod(3).String(), "--orig-port-dst", "7950")
	if entries := strings.Count(out, "dport=7950"); entries != 1 {
		t.Errorf("after many probes of pod3 there are %d entries:\n%s", entries, out)
	}
}

// A load balancer in front of the node is told how many local endpoints are up.
func TestHealthCheckNodePortCountsWhatIsUp(t *testing.T) {
	n := newCheckedNode(t, thisNode)
	ports := n.openPorts(t, 7001, lines)
	n.start(t, strings.Replace(probed(`[{ address = "10.2.1.10", nodeName = "n1" }, { address = "10.2.2.10", nodeName = "n1" }, { address = "10.2.3.10", nodeName = "n2" }]`),
		"targetPort = 7000", "targetPort = 7001", 1)+"healthCheck = { type = \"tcp\", "+patient+" }\n")
	probe := n.Client.HTTP(lab.AskLimit)
	counts := func(local int) {
		t.Helper()
		must(t, lab.Eventually(patience, func() error { return healthIs(probe, "http://192.0.2.1:32000/healthz", local) }))
	}
	counts(2)
	must(t, ports[0].Close())
	counts(1)
	must(t, ports[0].Open())
	counts(2)
}
