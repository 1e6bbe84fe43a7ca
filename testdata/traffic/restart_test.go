package traffic

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The kernel forwards; svcproxy's end, orderly or not, and its start are nothing
// that a connection sees.
func TestConnectionsOutliveSvcproxy(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	var open []*lab.Conn
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80", "192.0.2.1:30080", "198.51.100.80:80"} {
		c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
		must(t, err)
		defer c.Close()
		open = append(open, c)
	}
	works := func(when string) {
		t.Helper()
		for _, c := range open {
			if _, err := c.Ask(); err != nil {
				t.Errorf("%s: connection to %s: %v", when, c.RemoteAddr(), err)
			}
		}
		ask(t, n.Client, "tcp", "10.96.0.20:80")
		ask(t, n.Client, "udp", "[fd00:96::20]:80")
	}
	works("before")
	n.Kill()
	works("after kill -9")
	must(t, n.Start())
	n.serve(t, web+clusterIP("more", "10.96.0.21", allV4))
	works("after the restart")
	must(t, n.Stop())
	works("after the stop")
	ask(t, n.Client, "tcp", "10.96.0.21:80")
}

// Of many open connections none is lost, whatever becomes of svcproxy, its program, its files and the endpoints.
func TestManyConnectionsOutliveSvcproxy(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	held := n.holdMany(t)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"a restart", func() { n.restart(t, "") }},
		{"kill -9", func() { n.Kill(); must(t, n.Start()) }},
		{"an upgrade", func() {
			must(t, n.Stop())
			program, err := os.ReadFile(n.Binary)
			must(t, err)
			n.Binary = filepath.Join(t.TempDir(), "svcproxy")
			must(t, os.WriteFile(n.Binary, program, 0o755))
			must(t, n.Start())
		}},
		{"endpoints that go", func() { n.serve(t, strings.ReplaceAll(web, allPods, `["10.2.3.10", "fd00:2:3::10"]`)) }},
		{"endpoints that come", func() { n.serve(t, web) }},
		{"other weights", func() {
			n.serve(t, strings.ReplaceAll(web, allPods, `[{ address = "10.2.1.10", weight = 3 }, "10.2.2.10", { address = "fd00:2:1::10", weight = 3 }, "fd00:2:2::10"]`))
		}},
		{"a reload", func() { n.says(t, 0, "reload --wait") }},
		{"another configuration", func() { must(t, n.Configure("ipvs.syncPeriod = \"7s\"")) }},
	} {
		step.do()
		n.applied(t, step.name)
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%s: %d of %d connections are lost", step.name, lost, len(held))
		}
	}
}

// A file that is refused keeps what it last served, and the others apply.
func TestBrokenFileKeepsServing(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	mark := n.Log.Len()
	must(t, n.Serve(clusterIP("web", "10.96.0.20", allV4)+"endponts = []\n"))
	line, err := n.Wait(mark, "services.toml")
	must(t, err)
	if !strings.Contains(line, "endponts") {
		t.Errorf("the refusal does not name the key: %s", line)
	}
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	mark = n.Log.Len()
	must(t, os.WriteFile(filepath.Join(n.Dir, "services.d", "more.toml"), []byte(clusterIP("more", "10.96.0.21", allV4)), 0o644))
	n.synced(t, mark)
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
}
