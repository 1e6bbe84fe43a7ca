package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// A rule that nft adds to a table of iptables hides the table from iptables-save. svcproxy's rules do not pile up in it,
// services come and go, and status says what to do. cleanup does not claim to have removed all.
func TestRuleOfNFTHidesItsTable(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	n := newNode(t, `ipvs.syncPeriod = "1s"`)
	if !strings.Contains(n.tool(t, "iptables", "--version"), "nf_tables") {
		return // the legacy tools show all of theirs
	}
	n.start(t, web)
	rules := func() int { return strings.Count(n.tool(t, "nft", "list", "table", "ip", "filter"), "jump KUBE-") }
	before := rules()
	n.tool(t, "nft", "add", "rule", "ip", "filter", "FORWARD", "ct", "state", "established", "accept")
	if out := n.tool(t, "iptables-save", "-t", "filter"); strings.Contains(out, "KUBE-") {
		t.Fatalf("iptables-save shows the table:\n%s", out)
	}
	n.eventually(t, patience, "status", "iptables cannot show table filter")
	time.Sleep(5 * time.Second) // some checks
	n.serve(t, web+clusterIP("other", "10.96.0.30", allV4))
	wantEach(t, n.Client, "tcp", "10.96.0.30:80")
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	if after := rules(); after != before {
		t.Errorf("%d jumps to chains of svcproxy, before that %d", after, before)
	}

	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 1 || !strings.Contains(out, "iptables cannot show table filter") {
		t.Errorf("cleanup beside a hidden table: %v, exit code %d\n%s", err, code, out)
	}
	n.tool(t, "nft", "flush", "chain", "ip", "filter", "FORWARD")
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if left := rules(); left > 0 {
		t.Errorf("%d jumps are left", left)
	}
}
