package traffic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Clients are refused by lists and limits in every mode, others lose nothing, and cleanup leaves nothing.
func TestClients(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	n := newNode(t, "")
	deny := func(networks string) string {
		return strings.Replace(web, "[services.web]", "[services.web]\ndeny = ["+networks+"]", 1)
	}
	n.start(t, web)
	at := netip.MustParseAddrPort("10.96.0.20:80")
	ask := func() error { _, err := n.Client.Ask("tcp", at); return err }
	must(t, ask())
	n.serve(t, deny(`"192.0.2.0/24"`))
	t.Log(n.tool(t, "nft", "list", "table", "ip", "svcproxy-limits"))
	if ask() == nil {
		t.Error("a denied client is served")
	}
	out, _, err := n.Command("explain", at.String(), "--from", "192.0.2.9")
	must(t, err)
	if !strings.Contains(out, "192.0.2.9 is in 192.0.2.0/24, which service web denies") &&
		!strings.Contains(out, "in mode userspace no packet can be explained") {
		t.Errorf("explain: %s", out)
	}
	n.serve(t, deny(`"203.0.113.0/24"`))
	must(t, ask())
	n.serve(t, strings.Replace(web, "[services.web]", "[services.web]\nlimits = { newConnections = \"1/h\", burst = 5, perClient = true, reject = true }", 1))
	served := 0
	for range 20 {
		if ask() == nil {
			served++
		}
	}
	if served != 5 {
		t.Errorf("%d of 20 connections are served with a burst of 5", served)
	}
	out, _, err = n.Command("status", "web")
	must(t, err)
	if !strings.Contains(out, " by allow or deny, 15 over the rate") {
		t.Errorf("status: %s", out)
	}
	t.Log(n.tool(t, "nft", "list", "table", "ip", "svcproxy-limits"))
	n.serve(t, web)
	must(t, ask())
	if left := n.tool(t, "nft", "list", "tables"); strings.Contains(left, "limits") {
		t.Errorf("left\n%s", left)
	}
	n.serve(t, deny(`"192.0.2.0/24"`))
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: exit code %d, %v\n%s", code, err, out)
	}
	if left := n.tool(t, "nft", "list", "ruleset"); strings.Contains(left, "svcproxy") || strings.Contains(left, "KUBE-") {
		t.Errorf("cleanup left\n%s", left)
	}
}
