package status_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources/file"
)

// statusOf is the status of a node that serves a file. own is the node's address.
func statusOf(t *testing.T, services, own string, c mode.Config) status.Status {
	t.Helper()
	table, _, problems := file.Decode("services.toml", []byte(services))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	node := kernel.Node{Name: "n", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix(own + "/24"), Link: "eth0"}}}
	f := frontend.List(table, node, frontend.Config{})
	c.Names = kernel.DefaultNames
	return status.New(status.Input{Now: time.Unix(1, 0), Snapshot: &proxy.Snapshot{
		Table: table, Node: node, Frontends: f, Want: ipvs.State(f, c), Succeeded: time.Unix(1, 0),
	}})
}

// Nodes that serve the same have the same digests, whatever their own addresses and however their files are
// written. A difference in one service shows in that service and in the whole.
func TestDigests(t *testing.T) {
	const web = "[services.web]\ntype = \"LoadBalancer\"\nloadBalancerIPs = [\"198.51.100.80\"]\nclusterIP = \"10.96.0.9\"\nscheduler = \"mh\"\nports = [ { port = 80, nodePort = 30080 } ]\n"
	const api = "[services.api]\nclusterIP = \"10.96.0.10\"\nports = [ { port = 80 } ]\nendpoints = [\"10.2.1.9\"]\n"
	all := func(endpoints string) string { return web + "endpoints = [" + endpoints + "]\n" + api }
	one := statusOf(t, all(`"10.2.1.1", "10.2.1.2", { address = "10.2.1.3", weight = 2 }`), "192.0.2.1", mode.Config{})
	two := statusOf(t, all(`{ address = "10.2.1.3", weight = 2 }, "10.2.1.2", "10.2.1.1"`), "192.0.2.2", mode.Config{})
	other := statusOf(t, all(`"10.2.1.1", "10.2.1.2", "10.2.1.3"`), "192.0.2.1", mode.Config{})
	digests := func(s status.Status) (all []string) {
		for _, svc := range s.Services {
			all = append(all, svc.Name+" "+svc.Digest)
		}
		return append(all, s.Digest)
	}
	if a, b := digests(one), digests(two); !slices.Equal(a, b) || strings.HasSuffix(a[0], " ") || a[2] == "" {
		t.Errorf("one node %q, another %q", a, b)
	}
	if a, b := digests(one), digests(other); a[0] != b[0] || a[1] == b[1] || a[2] == b[2] {
		t.Errorf("one node %q, another with other weights %q", a, b)
	}
	var page bytes.Buffer
	if err := status.Print(&page, two, status.View{Format: status.Table, Digest: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"digest of all services: " + two.Digest, "198.51.100.80:80", two.Services[1].Digest, two.Services[1].Virtuals[0].Digest} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	page.Reset()
	if err := status.Print(&page, two, status.View{Format: status.JSON, Digest: true}); err != nil ||
		!strings.Contains(page.String(), fmt.Sprintf("\"digest\": %q", two.Digest)) {
		t.Errorf("JSON (%v):\n%s", err, page.String())
	}
}

// The daemons of connection sync, and whether they run.
func TestConnSync(t *testing.T) {
	daemon := func(r kernel.SyncRole) kernel.SyncDaemon {
		return kernel.SyncDaemon{Role: r, Link: "eth1", ID: 7, Group: netip.MustParseAddr("224.0.0.81"), Port: 8848, TTL: 1}
	}
	st := statusOf(t, "services = {}", "192.0.2.1", mode.Config{Sync: []kernel.SyncDaemon{daemon(kernel.SyncMaster), daemon(kernel.SyncBackup)}})
	if len(st.ConnSync) != 2 || st.ConnSync[1].State != status.ConnSyncRunning {
		t.Errorf("%+v", st.ConnSync)
	}
	st.ConnSync[1].State = status.ConnSyncForeign
	var page bytes.Buffer
	if err := status.Print(&page, st, status.View{Format: status.Table}); err != nil {
		t.Fatal(err)
	}
	if want := "connection sync: master and backup (foreign) on eth1, id 7, group 224.0.0.81:8848\n"; !strings.Contains(page.String(), want) {
		t.Errorf("the page lacks %q:\n%s", want, page.String())
	}
}
