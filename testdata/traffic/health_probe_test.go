package traffic

import (
	"strings"
	"testing"
	"time"

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
	check := func(more string) string { return "{ type = \"tcp\", " + quick + more + " }" }
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
	n.becomes(t, time.Minute, false, realsOf(down, 1)...)
	probes()
	n.becomes(t, 0, true, realsOf(up, 1)...)
}

// A load balancer in front of the node is told how many local endpoints are up.
func TestHealthCheckNodePortCountsWhatIsUp(t *testing.T) {
	n := newCheckedNode(t, thisNode)
	ports := n.openPorts(t, 7001, lines)
	n.start(t, strings.Replace(probed(`[{ address = "10.2.1.10", nodeName = "n1" }, { address = "10.2.2.10", nodeName = "n1" }, { address = "10.2.3.10", nodeName = "n2" }]`),
		"targetPort = 7000", "targetPort = 7001", 1)+"healthCheck = { type = \"tcp\", "+quick+" }\n")
	probe := n.Client.HTTP(lab.AskLimit)
	counts := func(local int) {
		t.Helper()
		must(t, lab.Eventually(time.Minute, func() error { return healthIs(probe, "http://192.0.2.1:32000/healthz", local) }))
	}
	counts(2)
	must(t, ports[0].Close())
	counts(1)
	must(t, ports[0].Open())
	counts(2)
}
