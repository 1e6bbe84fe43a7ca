package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const modeNFTables = "mode = \"nftables\"\niptables.syncPeriod = \"2s\"\niptables.minSyncPeriod = \"0s\"\n"

// tables returns our tables as nft lists them.
func (n node) tables(t *testing.T) string {
	t.Helper()
	return n.tool(t, "nft", "-s", "list", "table", "ip", "svcproxy") + n.tool(t, "nft", "-s", "list", "table", "ip6", "svcproxy")
}

// Mode nftables serves every kind of address by maps, writes nothing at a restart, heals what others remove, and cleanup
// leaves nothing. Connections outlive any number of endpoints.
func TestModeNFTables(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	n := newNode(t, modeNFTables)
	before := n.read(t)
	n.start(t, web)
	n.wantWeb(t, "at the start")
	n.healthy(t)
	served := n.tables(t)
	if rules := n.tool(t, "iptables-save"); strings.Contains(rules, "KUBE-") {
		t.Errorf("iptables has rules, too:\n%s", rules)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: exit code %d, %v\n%s", code, err, out)
	}
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error { // a start that writes nothing logs nothing
		out, code, err := n.Command("reload", "--wait")
		if err == nil && code != 0 {
			err = fmt.Errorf("reload: exit code %d\n%s", code, out)
		}
		return err
	}))
	n.wantWeb(t, "after a restart")
	if now := n.tables(t); len(now) != len(served) { // elements are listed in any order
		t.Errorf("a restart changed the tables:\n%s\nthey were:\n%s", now, served)
	}
	for _, drift := range []string{
		"flush ruleset", "delete table ip6 svcproxy", "flush map ip svcproxy KUBE-SLOTS", "flush map ip svcproxy KUBE-FRONTENDS",
		"flush chain ip svcproxy nat-KUBE-SERVICES",
	} {
		mark := n.Log.Len()
		n.tool(t, "nft", strings.Fields(drift)...)
		if _, err := n.Wait(mark, lab.Synced); err != nil {
			t.Fatalf("%s: %v", drift, err)
		}
		n.wantWeb(t, drift)
	}
	held := n.chat(t, "10.96.0.20:80", "pod1")
	for _, pods := range []string{`"10.2.2.10", "10.2.3.10"`, `"10.2.3.10"`, `"10.2.2.10"`, ``, `"10.2.2.10", "10.2.3.10"`} {
		n.serve(t, strings.ReplaceAll(web, allPods, "["+pods+"]"))
		for range 12 {
			a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:80"))
			if pods != "" {
				must(t, err)
			}
			if err == nil && (pods == "" || !strings.Contains(pods, n.Backend(a.Backend).V4.String())) {
				t.Errorf("endpoints %s: %s answers", pods, a.Backend)
			}
		}
	}
	held.wantAlive(t)
	n.cleanUp(t, before)
	if left := n.tool(t, "nft", "list", "tables"); strings.Contains(left, "svcproxy") {
		t.Errorf("cleanup left\n%s", left)
	}
}

// A change between modes nftables and iptables loses no connection, and refuses no new one.
func TestChangeBetweenNFTablesAndIPTables(t *testing.T) {
	n := newNode(t, modeNFTables)
	n.start(t, web)
	load := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		addr := netip.MustParseAddrPort(to)
		load.add(to, func() error { _, err := n.Client.Ask("tcp", addr); return err })
	}
	var held []*lab.Conn
	for _, main := range []string{modeIPTables, modeNFTables} {
		held = append(held, n.hold200(t)...)
		mark := n.Log.Len()
		n.restart(t, main)
		n.synced(t, mark)
		load.goOn(t, 40)
		if n := unanswered(held); n > 0 {
			t.Errorf("%d of %d connections were lost by the change to %s", n, len(held), main)
		}
	}
	load.wantServed(t)
	n.wantWeb(t, "in the end")
}
