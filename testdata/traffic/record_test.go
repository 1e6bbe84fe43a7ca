package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The ownership set was emptied while svcproxy was not running. Its record on disk
// says the same, as long as what is in the kernel is as it was made.
func TestOwnershipSetEmptiedWhileStoppedDisownsNothing(t *testing.T) {
	n := newNode(t, "")
	direct := func(endpoint string) string {
		return "[services.direct]\nclusterIP = \"10.96.0.23\"\nports = [ { port = 7000 } ]\nforward = \"direct\"\nendpoints = [\"" + endpoint + "\"]\n"
	}
	n.start(t, direct("10.2.1.10")+services(200, `["10.5.0.1"]`)+clusterIP("web", "10.96.0.20", `["10.2.1.10"]`)+
		clusterIP("gone", "10.96.0.21", `["10.2.1.10"]`)+clusterIP("taken", "10.96.0.22", `["10.2.1.10"]`))
	ask(t, n.Client, "tcp", "10.96.0.20:80")
	// The record is written beside the loop. A virtual server that does not masquerade
	// is owned by its digest, which comes last.
	must(t, lab.Eventually(patience, func() error {
		if text, err := os.ReadFile(filepath.Join(n.Dir, "state", "virtuals")); err != nil || !strings.Contains(string(text), "digest -t 10.96.0.23:7000 ") {
			return fmt.Errorf("no digest of the direct virtual server is recorded: %v", err)
		}
		return nil
	}))
	n.Kill()
	n.tool(t, "ipset", "flush", "KUBE-VIRTUAL-SERVER")
	// Somebody else made another one of the same address meanwhile.
	n.tool(t, "ipvsadm", "-D", "-t", "10.96.0.22:80")
	theirs := "-A -t 10.96.0.22:80 -s wlc"
	n.feed(t, theirs+"\n-a -t 10.96.0.22:80 -r 10.9.9.9:9 -m -w 5\n", "ipvsadm", "-R")

	mark := n.Log.Len()
	must(t, n.Serve(direct("10.2.2.10")+services(200, `["10.5.0.2"]`)+clusterIP("web", "10.96.0.20", `["10.2.2.10"]`)+
		clusterIP("taken", "10.96.0.22", `["10.2.1.10"]`)))
	must(t, n.Start())
	n.synced(t, mark)
	// Nothing at a start says that the file is whole, so the end of a service waits till it was quiet for 10 s.
	must(t, lab.Eventually(patience, func() error {
		if a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:80")); err != nil || a.Backend != "pod2" {
			return fmt.Errorf("%q answers, wanted pod2: %v", a.Backend, err)
		}
		return nil
	}))
	if log := n.Log.String()[mark:]; strings.Count(log, "not taken over") != 1 || !strings.Contains(log, "10.96.0.22:80") {
		t.Errorf("conflicts:\n%s", log)
	}
	after := n.read(t)
	if !slices.Contains(after.Virtuals, theirs) || slices.ContainsFunc(after.Virtuals, func(l string) bool { return strings.Contains(l, "10.96.0.21:80") }) {
		t.Errorf("%d virtual servers, not as they should be", len(after.Virtuals))
	}

	// By the record alone cleanup takes all of ours and no more.
	must(t, n.Stop())
	n.tool(t, "ipset", "flush", "KUBE-VIRTUAL-SERVER")
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if left := n.read(t).Virtuals; len(left) != 2 || left[0] != theirs {
		t.Errorf("after cleanup: %q", left)
	}
}

// A service deleted between kube-proxy's last sync and svcproxy's first leaves
// virtual servers without an owner. They are reported, also after a restart, and
// removed by the operator's command.
func TestWhatKubeProxyLeftIsSaid(t *testing.T) {
	n := newNode(t, "")
	for tool, args := range map[string][]string{"ipset": {"restore"}, "ipvsadm": {"-R"}} {
		n.feed(t, leftover(t, tool), tool, args...)
	}
	empty := lab.Reading{Virtuals: n.read(t).Virtuals}
	n.start(t, clusterIP("other", "10.96.0.99", allV4))
	said := func(when string) {
		t.Helper()
		out, _, err := n.Command("status")
		must(t, err)
		for _, what := range []string{out, n.Log.String()} {
			if !strings.Contains(what, "ipvsadm -D -t 192.0.2.1:30080 removes it") || !strings.Contains(what, "ipvsadm -D -t 10.96.0.20:80 removes it") {
				t.Errorf("%s, not said:\n%s", when, what)
			}
		}
	}
	said("at the first start")
	must(t, n.Stop())
	mark := n.Log.Len()
	must(t, n.Serve(clusterIP("other", "10.96.0.98", allV4)))
	must(t, n.Start())
	n.synced(t, mark)
	said("after a restart")
	if diff := lab.Diff(empty, lab.Reading{Virtuals: n.read(t).Virtuals}); strings.Contains(diff, "30080") {
		t.Errorf("touched:\n%s", diff)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup", "--leftovers"); err != nil || code != 0 || !strings.Contains(out, "10.96.0.20:80") {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if left := n.read(t).Virtuals; len(left) != 0 {
		t.Errorf("after cleanup: %q", left)
	}
}
