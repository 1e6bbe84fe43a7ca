package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// A service of a file does not take the node's SSH: it is left out where a program of the node listens, and everything
// names the program. It is served when the program stops, stays served when it is back, and also over a restart. The key
// takeHostPorts serves it at once. Ports of svcproxy are never taken.
func TestProgramsKeepTheirPorts(t *testing.T) {
	const healthz = "healthzBindAddress = \"0.0.0.0:10256\"\n"
	n := newNode(t, healthz)
	restart := func() {
		t.Helper()
		n.restart(t, healthz)
		must(t, lab.Eventually(patience, func() error {
			if out, code := n.stand(t, "ssh"); code != 0 && code != 7 {
				return fmt.Errorf("not started: %s", out)
			}
			return nil
		}))
	}
	answered := new(atomic.Int32)
	listen := func() (stop func()) {
		t.Helper()
		sshd, err := n.Lab.Node.Listen(2222)
		must(t, err)
		go func() {
			for {
				c, err := sshd.Accept()
				if err != nil {
					return
				}
				answered.Add(1)
				c.Close()
			}
		}()
		return func() { sshd.Close() }
	}
	stop := listen()
	text := func(keys string) string {
		return "[services.ssh]\nclusterIP = \"10.96.0.20\"\nports = [{ port = 80, targetPort = 7000, nodePort = 2222 }]\nendpoints = [\"10.2.1.10\"]\n" + keys +
			"[services.own]\nexternalIPs = [\"192.0.2.1\"]\nports = [{ port = 2222, targetPort = 7000, protocol = \"UDP\" }, { port = 10256, targetPort = 7000 }]\nendpoints = [\"10.2.1.10\"]\n"
	}
	withheld := func(when string) {
		t.Helper()
		before := answered.Load()
		if err := connect(n.Client, "192.0.2.1", 2222); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		must(t, lab.Eventually(patience, func() error {
			if answered.Load() == before {
				return fmt.Errorf("%s: the program got no connection", when)
			}
			return nil
		}))
		wantFrom(t, n.Client, "10.96.0.20:80", "pod1")
		if out, code := n.stand(t, "ssh"); code != 7 || !strings.Contains(out, "listens on node port 2222/TCP of this host") || !strings.Contains(out, "(pid ") {
			t.Errorf("%s: exit code %d\n%s", when, code, out)
		}
	}
	must(t, n.Serve(text("")))
	if out, code, err := n.Command("check"); err != nil || code != 7 || !strings.Contains(out, "listens on node port 2222/TCP") {
		t.Errorf("check: %v, exit code %d\n%s", err, code, out)
	}
	n.start(t, text(""))
	withheld("at the start")
	for _, command := range [][]string{{"status"}, {"doctor"}, {"reload", "--wait"}} {
		if out, code, err := n.Command(command[0], command[1:]...); err != nil || code != 7 || !strings.Contains(out, "listens on node port 2222/TCP") {
			t.Errorf("%v: %v, exit code %d\n%s", command, err, code, out)
		}
	}
	if out, _, err := n.Command("plan", "-o", "json"); err != nil || !strings.Contains(out, "listens on node port 2222/TCP") {
		t.Errorf("plan: %v\n%s", err, out)
	}
	if out, code := n.stand(t, "own"); code != 7 || !strings.Contains(out, "192.0.2.1:10256/TCP is a port of svcproxy itself: healthzBindAddress") {
		t.Errorf("own: exit code %d\n%s", code, out)
	}
	if a, err := n.Client.Ask("udp", netip.MustParseAddrPort("192.0.2.1:2222")); err != nil || a.Backend != "pod1" {
		t.Errorf("UDP: %v, %v", a, err)
	}
	restart()
	withheld("after a restart")

	mark := n.Log.Len()
	stop()
	n.synced(t, mark)
	wantFrom(t, n.Client, "192.0.2.1:2222", "pod1")
	if modeOf(t) == "userspace" { // nobody else can listen where the relay does
		return
	}
	stop = listen()
	if _, _, err := n.Command("reload", "--wait"); err != nil { // which looks at once
		t.Error(err)
	}
	served := func(when string) {
		t.Helper()
		must(t, lab.Eventually(generous, func() error {
			if out, code, err := n.Command("status"); err != nil || code != 7 || !strings.Contains(out, "node port 2222/TCP: ") || !strings.Contains(out, "gets no new connections: ssh is served") {
				return fmt.Errorf("%s: %v, exit code %d\n%s", when, err, code, out)
			}
			return nil
		}))
		wantFrom(t, n.Client, "192.0.2.1:2222", "pod1")
	}
	served("the program is back")
	restart()
	served("after a restart")
	mark = n.Log.Len()
	must(t, n.Serve("services = {}\n"))
	n.synced(t, mark)
	must(t, n.Serve(text("")))
	if out, code, err := n.Command("reload", "--wait"); err != nil || code != 7 {
		t.Errorf("wanted again: %v, exit code %d\n%s", err, code, out)
	}
	withheld("wanted again")
	must(t, n.Serve(text("takeHostPorts = true\n")))
	if out, code, err := n.Command("reload", "--wait"); err != nil || code != 7 || strings.Contains(out, "2222/TCP") { // 7: for the other service
		t.Errorf("with the key: %v, exit code %d\n%s", err, code, out)
	}
	wantFrom(t, n.Client, "192.0.2.1:2222", "pod1")
	stop()
}
