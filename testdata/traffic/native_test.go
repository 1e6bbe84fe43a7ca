package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// wantNative wants the rules of nftables, and none of iptables and ipset, or the reverse.
func (n node) wantNative(t *testing.T, native bool) {
	t.Helper()
	if got := strings.Contains(n.tool(t, "nft", "list", "tables"), "table ip svcproxy\n"); got != native {
		t.Errorf("table ip svcproxy: %t, want %t", got, native)
	}
	left := n.leftIn(t, "legacy") + n.leftIn(t, "nft")
	for line := range strings.Lines(n.tool(t, "ipset", "list", "-n")) {
		if strings.Contains(line, "KUBE-") {
			left += line
		}
	}
	if (left != "") == native {
		t.Errorf("nftables %t: of iptables and ipset there are\n%s", native, head(left))
	}
}

// The rules of mode ipvs go from iptables to nftables and back. No connection is lost, no new one is refused, and the
// virtual servers stay as they are, even without the record that tells whose they are.
func TestRulesMoveToNFTablesAndBack(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"), kerneltest.Tool("ipset"))
	kerneltest.UseBackend(t, "legacy") // also for what doctor says in the end
	n := newNode(t, `rules.backend = "iptables"`)
	n.start(t, web)
	load := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80", "198.51.100.80:80"} {
		load.put(t, n.Client, to)
	}
	held := n.holdMany(t)
	for i, to := range []string{"nftables", "iptables", "nftables", "iptables"} {
		kerneltest.UseBackend(t, kerneltest.Backends[i/2])
		load.goOn(t, 40)
		must(t, n.Stop())
		must(t, os.Remove(filepath.Join(n.Dir, "state", "virtuals")))
		must(t, n.Configure(fmt.Sprintf("rules.backend = %q", to)))
		mark := n.Log.Len()
		must(t, n.Start())
		n.synced(t, mark)
		load.goOn(t, 40)
		must(t, lab.Eventually(patience, func() error {
			if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
				return fmt.Errorf("plan: exit code %d, %v\n%s", code, err, out)
			}
			return nil
		}))
		n.wantNative(t, to == "nftables")
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%d of %d connections were lost by the change to %s", lost, len(held), to)
		}
		if log := n.Log.String()[mark:]; strings.Contains(log, "conflict") || strings.Contains(log, "level=ERROR") {
			t.Errorf("the change to %s:\n%s", to, log)
		}
	}
	load.wantServed(t)
	n.wantWeb(t, "in the end")
}

// nativeDrift is what other programs do to the rules of nftables, and a full check repairs.
var nativeDrift = []drift{
	{"sets emptied", `for s in KUBE-CLUSTER-IP KUBE-IPVS-IPS KUBE-VIRTUAL-SERVER; do nft flush set ip svcproxy $s; done`},
	{"an entry added", `nft add element ip svcproxy KUBE-CLUSTER-IP { 203.0.113.9 . tcp . 9 }`},
	{"a set removed", `nft delete set ip svcproxy KUBE-VIRTUAL-SERVER`},
	{"chains emptied", `nft flush chain ip svcproxy nat-KUBE-SERVICES; nft flush chain ip6 svcproxy filter-KUBE-IPVS-FILTER`},
	{"jumps removed", `nft flush chain ip svcproxy nat-OUTPUT; nft flush chain ip6 svcproxy nat-POSTROUTING`},
	{"a rule added", `nft insert rule ip svcproxy filter-INPUT tcp dport 80 drop`},
	{"a table removed", `nft delete table ip6 svcproxy`},
	{"a virtual server deleted", `ipvsadm -D -t 10.96.0.20:80`},
}

// withoutTables are the modules that a kernel like that of RHEL 10 lacks.
var withoutTables = []string{"x_tables", "ip_tables", "ip_set", "nft_compat"}

// Where the kernel lacks iptables and ipset, mode ipvs serves by rules of nftables and says so. The kernel loads no
// module of the others. What another program flushes is back in two seconds, with one event that names the program.
func TestFallbackToNFTables(t *testing.T) {
	if !slices.Equal(masked(t), withoutTables) {
		t.Skip("make test-fallback runs this in a guest of its own: module_blacklist=" + strings.Join(withoutTables, ","))
	}
	n := prepare(t, lab.New, "mode = \"ipvs\"\n"+seldom)
	n.start(t, web)
	n.wantWeb(t, "without iptables")
	if out, code, err := n.Command("status"); err != nil || code != 0 || !strings.Contains(out, "mode ipvs with rules of nftables") {
		t.Errorf("status: %v, exit code %d\n%s", err, code, out)
	}
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: %v, exit code %d\n%s", err, code, out)
	}
	for line := range strings.Lines(n.tool(t, "lsmod")) {
		name, _, _ := strings.Cut(line, " ")
		if slices.Contains(withoutTables, name) || strings.HasPrefix(name, "xt_") || strings.HasPrefix(name, "ip_set") {
			t.Errorf("the kernel has loaded %s", name)
		}
	}
	mark, began := n.Log.Len(), time.Now()
	n.tool(t, "nft", "flush", "ruleset")
	n.synced(t, mark)
	if took := time.Since(began); !emulated() && took > generous {
		t.Errorf("repaired after %v", took)
	}
	n.wantWeb(t, "after nft flush ruleset")
	if repairs := n.repairs(t); len(repairs) != 1 || !byNFT.MatchString(repairs[0]) {
		t.Errorf("events\n%s", strings.Join(repairs, "\n"))
	}
	if a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:22")); err == nil {
		t.Errorf("a port of the host answers by a VIP: %s", a.Backend)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if out := n.tool(t, "nft", "list", "tables"); strings.Contains(out, "svcproxy") {
		t.Errorf("after cleanup:\n%s", out)
	}
}
