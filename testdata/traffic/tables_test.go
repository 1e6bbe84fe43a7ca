package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// table runs svcproxy table and wants an exit code.
func (n node) table(t *testing.T, want int, args ...string) string {
	t.Helper()
	out, code, err := n.Command("table", args...)
	if err != nil || code != want {
		t.Fatalf("table %s: exit code %d, %v, want %d\n%s", strings.Join(args, " "), code, err, want, out)
	}
	return out
}

// Tables that a program sets are served like files of services.d. While one is refused, changed, or its daemon is
// killed, clients notice nothing. It takes nothing from a service of a file.
func TestTables(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	named := func(name, vip string, endpoints ...string) string {
		path := filepath.Join(n.Dir, "shop")
		must(t, os.WriteFile(path, fmt.Appendf(nil, "[services.%s]\nclusterIP = %q\nports = [ { port = 80, targetPort = 7000 } ]\nendpoints = [%s]\n",
			name, vip, `"`+strings.Join(endpoints, `", "`)+`"`), 0o600))
		return path
	}
	shop := func(vip string, endpoints ...string) string { return named("shop", vip, endpoints...) }
	vip := netip.MustParseAddrPort("10.96.0.40:80")
	set := n.table(t, 0, "set", "shop", shop("10.96.0.40", "10.2.1.10"), "--new", "--wait")
	if _, err := n.Client.Ask("tcp", vip); err != nil {
		t.Fatal(err)
	}
	l := newLoad(t)
	l.add("shop", func() error { _, err := n.Client.Ask("tcp", vip); return err })
	held := n.held(t, vip, 20)

	n.table(t, 0, "set", "shop", shop("10.96.0.40", "10.2.1.10", "10.2.2.10"), "--if-match", set[len(set)-32:], "--wait")
	if out := n.table(t, cli.Failed, "set", "shop", shop("10.96.0.40", "10.2.1.10"), "--if-match", set[len(set)-32:]); !strings.Contains(out, "the table is not the one that") {
		t.Error(out)
	}
	if out := n.table(t, cli.Config, "set", "shop", shop("10.96.0.40", "10.2.1.300")); !strings.Contains(out, "table shop:4: shop: ") {
		t.Error(out)
	}
	l.goOn(t, 20)
	if modeOf(t) == "userspace" { // it refuses clients until it runs again
		l.wantServed(t)
	}
	n.Kill()
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error {
		out, code, err := n.Command("table", "list")
		if err == nil && (code != 0 || !strings.Contains(out, "shop")) {
			err = fmt.Errorf("exit code %d: %s", code, out)
		}
		return err
	}))
	if modeOf(t) != "userspace" {
		l.goOn(t, 20)
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%d connections are lost", lost)
		}
		l.wantServed(t)
	}

	n.table(t, cli.Degraded, "set", "thief", named("thief", "10.96.0.20", "10.2.3.10"), "--wait")
	if status, _, err := n.Command("status"); err != nil || !strings.Contains(status, "10.96.0.20:80/TCP is taken by web") {
		t.Errorf("the thief is not named: %v\n%s", err, status)
	}
	n.table(t, 0, "remove", "thief", "--wait")
	events, _, err := n.Command("events")
	if must(t, err); !strings.Contains(events, "table shop set by root: 1 service") || !strings.Contains(events, "table thief removed by root") {
		t.Errorf("events:\n%s", events)
	}
	n.table(t, 0, "remove", "shop", "--wait")
	if _, err := n.Client.Ask("tcp", vip); err == nil {
		t.Error("a removed table is served")
	}
	if out := n.table(t, 0, "list"); out != "no tables" {
		t.Error(out)
	}
}

// 100 programs set 100 tables while the daemon is killed. Each is then as one of its writer's versions, whole.
func TestTablesOfManyWriters(t *testing.T) {
	n := newLonelyNode(t, "")
	n.start(t, web)
	client := control.Client{Socket: daemon.Socket(filepath.Join(n.Dir, "run"))}
	text := func(writer, version int) string {
		return fmt.Sprintf("[services.t%d]\nclusterIP = \"10.97.0.%d\"\nports = [ { port = 80 } ]\nendpoints = [\"10.2.1.10\"]\n# version %d\n%s",
			writer, writer+1, version, strings.Repeat("#\n", version))
	}
	const writers = 100
	var going sync.WaitGroup
	var taken [writers]int // the last version of each
	for w := range writers {
		going.Go(func() {
			for n.Running() { // the server refuses connections beyond its limit
				_, err := client.SetTable(t.Context(), fmt.Sprintf("t%d", w), []byte(text(w, taken[w]+1)), file.Expect{}, false)
				if err == nil {
					taken[w]++
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	time.Sleep(5 * time.Second)
	n.Kill()
	going.Wait()
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error { _, err := client.Tables(t.Context()); return err }))
	all := 0
	for w := range writers {
		got, _, err := client.TableText(t.Context(), fmt.Sprintf("t%d", w))
		if none := taken[w] == 0 && err != nil; !none && string(got) != text(w, taken[w]) && string(got) != text(w, taken[w]+1) {
			t.Errorf("table t%d, written to version %d: %v\n%s", w, taken[w], err, got)
		}
		all += taken[w]
	}
	t.Logf("%d versions of %d tables", all, writers)
}
