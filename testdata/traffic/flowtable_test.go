package traffic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const withFlowtable = modeNFTables + "nftables.flowtable = true\n"

// offloaded counts the tracked connections that a flowtable has.
func (n node) offloaded(t *testing.T) int {
	t.Helper()
	return strings.Count(n.tool(t, "cat", "/proc/net/nf_conntrack"), "[OFFLOAD]")
}

// With a flowtable established connections go past the rules, in both families. They outlive a restart, other links and
// the key's end, and no new one is refused. What others remove comes back, nft can list and load the tables, and
// cleanup leaves nothing.
func TestFlowtable(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"), kerneltest.Flowtables)
	n := newNode(t, withFlowtable)
	before := n.read(t)
	n.start(t, web)
	n.wantWeb(t, "at the start")
	n.healthy(t)
	load := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		load.put(t, n.Client, to)
	}
	held := n.holdMany(t)
	wantAll := func(when string) {
		t.Helper()
		load.goOn(t, 20)
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%s: %d of %d connections are lost", when, lost, len(held))
		}
	}
	wantOffloaded := func(when string, some bool) {
		t.Helper()
		wantAll(when)
		if got := n.offloaded(t); (got >= len(held)) != some || !some && got > 0 {
			t.Errorf("%s: the flowtable has %d connections", when, got)
		}
	}
	devices := func() string {
		return n.tool(t, "nft", "list", "flowtables")
	}
	wantOffloaded("at the start", true)
	if out, code, err := n.Command("status"); err != nil || code != 0 || !strings.Contains(out, "nftables.flowtable") {
		t.Errorf("status: %v, exit code %d\n%s", err, code, out)
	}

	must(t, n.Stop())
	wantAll("while no svcproxy runs")
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: exit code %d, %v\n%s", code, err, out)
	}
	must(t, n.Start())
	wantOffloaded("after a restart", true)

	must(t, n.Lab.Node.IP("link add flow0 type veth peer name flow1"))
	must(t, n.Lab.Node.IP("addr add 203.0.113.1/24 dev flow0"))
	must(t, n.Lab.Node.IP("link set flow0 up"))
	wantDevice := func(when string, there bool) {
		t.Helper()
		must(t, lab.Eventually(patience, func() error {
			if out := devices(); (strings.Count(out, "flow0") == 2) != there || !there && strings.Contains(out, "flow0") {
				return fmt.Errorf("%s:\n%s", when, out)
			}
			return nil
		}))
	}
	wantDevice("a new link", true)
	must(t, n.Lab.Node.IP("addr del 203.0.113.1/24 dev flow0"))
	wantDevice("its address is gone", false)
	must(t, n.Lab.Node.IP("addr add 203.0.113.1/24 dev flow0"))
	wantDevice("it is back", true)
	must(t, n.Lab.Node.IP("link del flow0"))
	wantDevice("the link is gone", false)
	wantOffloaded("with other links", true)

	mark := n.Log.Len()
	n.tool(t, "nft", "flush", "chain", "ip", "svcproxy", "filter-KUBE-FORWARD")
	n.synced(t, mark)
	listed := n.tool(t, "nft", "list", "table", "ip", "svcproxy")
	n.tool(t, "nft", "-j", "list", "ruleset")
	n.feed(t, "delete table ip svcproxy\n"+listed, "nft", "-f", "-")
	n.wantWeb(t, "after a reload by nft")
	wantAll("after a reload by nft")

	mark = n.Log.Len()
	n.restart(t, modeNFTables)
	n.synced(t, mark)
	wantOffloaded("without the key", false)
	if out := devices(); strings.Contains(out, "flowtable") {
		t.Errorf("without the key:\n%s", out)
	}
	mark = n.Log.Len()
	n.restart(t, withFlowtable)
	n.synced(t, mark)
	wantOffloaded("with the key again", true)
	load.wantServed(t)
	n.cleanUp(t, before)
	if left := n.tool(t, "nft", "list", "tables"); strings.Contains(left, "svcproxy") {
		t.Errorf("cleanup left\n%s", left)
	}
}
