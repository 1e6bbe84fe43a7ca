package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// knot is Debian's authoritative DNS server, with zone example.net on loopback of a host.
type knot struct {
	on     *lab.Host
	dir    string
	serial int
	cmd    *exec.Cmd
	log    lab.Log
}

func startKnot(t *testing.T, on *lab.Host, records ...string) *knot {
	t.Helper()
	k := &knot{on: on, dir: t.TempDir()}
	must(t, os.WriteFile(k.path("knot.conf"), fmt.Appendf(nil, `
server:
  rundir: %[1]q
  listen: 127.0.0.1@5300
log:
  - target: stderr
    any: info
database:
  storage: %[1]q
zone:
  - domain: example.net
    storage: %[1]q
    file: zone
    zonefile-sync: -1
    zonefile-load: whole
`, k.dir), 0o644))
	k.save(t, records...)
	k.start(t)
	t.Cleanup(func() {
		k.stop()
		if t.Failed() {
			t.Logf("knot:\n%s", k.log.String())
		}
	})
	return k
}

func (k *knot) path(name string) string { return filepath.Join(k.dir, name) }

func (k *knot) start(t *testing.T) {
	t.Helper()
	k.cmd = exec.Command("knotd", "-c", k.path("knot.conf"))
	k.cmd.Stdout, k.cmd.Stderr = &k.log, &k.log
	must(t, k.on.Start(k.cmd))
}

func (k *knot) stop() {
	if k.cmd != nil && k.cmd.ProcessState == nil {
		_ = k.cmd.Process.Signal(syscall.SIGCONT)
		_ = k.cmd.Process.Signal(syscall.SIGTERM)
		_ = k.cmd.Wait()
	}
}

// save replaces the zone; records are lines of it.
func (k *knot) save(t *testing.T, records ...string) {
	t.Helper()
	k.serial++
	text := fmt.Sprintf("$ORIGIN example.net.\n$TTL 1\n@ SOA ns root %d 60 60 60 1\n@ NS ns\nns A 127.0.0.1\n%s\n", k.serial,
		strings.Join(records, "\n"))
	must(t, os.WriteFile(k.path("zone"), []byte(text), 0o644))
}

// serve has the server answer with other records.
func (k *knot) serve(t *testing.T, records ...string) {
	t.Helper()
	k.save(t, records...)
	must(t, k.cmd.Process.Signal(syscall.SIGHUP))
}

// backs waits until a service's backends are these hosts alone: those that answer.
func (n node) backs(t *testing.T, to string, hosts ...string) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		seen := map[string]bool{}
		for range 8 * len(hosts) {
			a, err := n.Client.Ask("tcp", netip.MustParseAddrPort(to))
			if err != nil {
				return err
			}
			seen[a.Backend] = true
		}
		for _, h := range hosts {
			if !seen[h] {
				return fmt.Errorf("%s does not get connections: %v", h, seen)
			}
			delete(seen, h)
		}
		if len(seen) > 0 {
			return fmt.Errorf("others get connections: %v", seen)
		}
		return nil
	}))
}

// tells waits until a command prints a text.
func (n node) tells(t *testing.T, text string, args ...string) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		if out, _, err := n.Command(args[0], args[1:]...); err != nil || !strings.Contains(out, text) {
			return fmt.Errorf("%v does not say %q: %v\n%s", args, text, err, out)
		}
		return nil
	}))
}

// Backends are DNS names, with a real server that changes its zone, fails, is silent, truncates, and says that there is no
// such name; and svcproxy is killed meanwhile. No request to a service with a living backend fails.
func TestBackendsByName(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("knotd"))
	n := newNode(t, "dns.servers = [\"127.0.0.1:5300\"]\ndns.maxTTL = \"1s\"\ndns.emptyGrace = \"4s\"\n")
	pod := func(name string, i int) string { return fmt.Sprintf("%s A 10.2.%d.10", name, i) }
	other := []string{pod("b", 3), pod("c", 1), "_web._tcp SRV 1 1 7000 b", "_web._tcp SRV 2 1 7000 c"}
	for i := range 100 {
		other = append(other, fmt.Sprintf("big A 10.9.0.%d", i+1))
	}
	zone := func(app ...string) []string { return append(app, other...) }
	k := startKnot(t, n.Lab.Node, zone(pod("app", 1), pod("app", 2))...)
	n.start(t, clusterIP("web", "10.96.0.20", `["app.example.net:7000"]`)+
		clusterIP("srv", "10.96.0.21", `[{ srv = "_web._tcp.example.net" }]`)+
		clusterIP("big", "10.96.0.22", `["big.example.net"]`)+clusterIP("none", "10.96.0.23", `["none.example.net"]`))
	const web, srv = "10.96.0.20:80", "10.96.0.21:80"
	n.backs(t, web, "pod1", "pod2")
	n.backs(t, srv, "pod3")
	n.tells(t, "app.example.net (10.2.2.10:7000)", "status", "web")
	n.tells(t, "app.example.net (10.2.2.10:7000)", "explain", web)
	n.tells(t, "big.example.net: has 36 addresses more than the 64 that are used", "status") // over TCP
	n.tells(t, "none.example.net: does not exist (NXDOMAIN)", "status")
	n.tells(t, "none.example.net: does not exist (NXDOMAIN)", "check", "--probe", "-o", "json")
	if out, code, err := n.Command("plan"); err != nil || code != 0 || strings.Contains(out, "10.2.") {
		t.Errorf("plan while all names are as they are served: %v, exit code %d\n%s", err, code, out)
	}

	l := newLoad(t)
	for _, to := range []string{web, srv} {
		l.add("a connection each to "+to, func() error {
			_, err := n.Client.Ask("tcp", netip.MustParseAddrPort(to))
			return err
		})
	}
	l.goOn(t, 50)
	for i := range 3 {
		k.serve(t, zone(pod("app", 1+i), pod("app", 1+(i+1)%3))...)
		n.backs(t, web, fmt.Sprintf("pod%d", 1+i), fmt.Sprintf("pod%d", 1+(i+1)%3))
	}
	k.serve(t, zone(pod("app", 2))...)
	n.backs(t, web, "pod2")

	k.stop() // refuses
	n.tells(t, "the last good answer is used", "status")
	must(t, os.Remove(k.path("zone")))
	k.start(t) // SERVFAIL
	n.tells(t, "app.example.net: 127.0.0.1:5300: the server answers ServerFailure: the last good answer is used", "status")
	l.goOn(t, 50)
	before := n.read(t)
	for range 2 {
		n.Kill()
		must(t, n.Start())
		n.tells(t, "ServerFailure: the last good answer is used", "status")
		l.goOn(t, 50)
		if diff := lab.Diff(before, n.read(t)); diff != "" {
			t.Errorf("the kernel before and after a kill while the server fails:\n%s", head(diff))
		}
	}
	must(t, k.cmd.Process.Signal(syscall.SIGSTOP)) // silent
	n.tells(t, "app.example.net: 127.0.0.1:5300: no answer: the last good answer is used", "status")
	l.goOn(t, 50)
	k.stop()
	k.save(t, zone(pod("app", 1), pod("app", 3))...)
	k.start(t)
	n.backs(t, web, "pod1", "pod3")

	k.serve(t, other...)
	n.tells(t, "app.example.net: does not exist (NXDOMAIN)", "status")
	k.serve(t, zone(pod("app", 2))...) // within the grace
	n.backs(t, web, "pod2")
	l.wantServed(t)
	k.serve(t, other...)
	n.tells(t, "app.example.net: does not exist (NXDOMAIN): has no address: it stands for no endpoint", "status")
	k.serve(t, zone(pod("app", 2))...)
	n.backs(t, web, "pod2")
	n.serve(t, clusterIP("web", "10.96.0.20", `["app.example.net:7000"]`))
}
