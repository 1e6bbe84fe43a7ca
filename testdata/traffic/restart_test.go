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
