package traffic

import (
	"os"
	"strings"
	"testing"
)

// If a bridge's packets do not pass iptables, its ports cannot reach services
// with endpoints on it. A warning says so as long as it holds.
func TestEndpointsOnAnUnfilteredBridgeAreReported(t *testing.T) {
	n := newLonelyNode(t, "ipvs.syncPeriod = \"1s\"")
	n.tool(t, "ip", "link", "add", "br0", "type", "bridge")
	n.tool(t, "ip", "addr", "add", "10.3.0.1/24", "dev", "br0")
	const calls = "net.bridge.bridge-nf-call-iptables"
	if _, err := os.Stat("/proc/sys/net/bridge"); err != nil {
		t.Log("without br_netfilter")
	} else {
		n.tool(t, "sysctl", "-qw", calls+"=0")
	}
	n.start(t, clusterIP("web", "10.96.0.20", `["10.3.0.10"]`))
	const said = "endpoint 10.3.0.10 of web is on bridge br0"
	_, err := n.Wait(0, said)
	must(t, err)
	if out, _, err := n.Command("status"); err != nil || !strings.Contains(out, said) {
		t.Errorf("status: %v\n%s", err, out)
	}
	mark := n.Log.Len()
	n.serve(t, clusterIP("web", "10.96.0.20", `["10.4.0.10"]`))
	n.drift(t)
	_, err = n.Wait(mark, "msg=drift")
	must(t, err)
	if out, _, err := n.Command("status"); err != nil || strings.Contains(out, "is on bridge") {
		t.Errorf("status: %v\n%s", err, out)
	}
}
