package traffic

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// Where the kernel has no nftables a service with limits is not served, and that is said. Others are.
func TestClientsWithoutNFTables(t *testing.T) {
	if !slices.Contains(masked(t), "nf_tables") {
		t.Skip("make test-fallback runs this in a guest of its own: module_blacklist=nf_tables")
	}
	kerneltest.UseBackend(t, "legacy")
	n := newNode(t, "")
	other := clusterIP("other", "10.96.0.21", `["10.2.1.10:7000"]`)
	n.start(t, web+other)
	at, there := netip.MustParseAddrPort("10.96.0.20:80"), netip.MustParseAddrPort("10.96.0.21:80")
	served := func(when string, want bool) {
		t.Helper()
		if _, err := n.Client.Ask("tcp", at); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := n.Client.Ask("tcp", there); err != nil {
			t.Errorf("%s, of another service: %v", when, err)
		}
	}
	served("without limits", true)
	mark := n.Log.Len()
	n.serve(t, strings.Replace(web, "[services.web]", "[services.web]\nlimits = { connections = 9 }", 1)+other)
	served("with limits", false)
	const said = "left out: allow, deny and limits need nftables: this kernel has no nftables (module nf_tables): " +
		"modprobe nf_tables"
	if log := n.Log.String()[mark:]; strings.Count(log, said) != 1 {
		t.Errorf("log:\n%s", log)
	}
	if out, code, err := n.Command("status"); err != nil || code != 7 || !strings.Contains(out, said) {
		t.Errorf("status: %v, exit code %d\n%s", err, code, out)
	}
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: %v, exit code %d\n%s", err, code, out)
	}
	n.serve(t, web+other)
	served("without them again", true)
}
