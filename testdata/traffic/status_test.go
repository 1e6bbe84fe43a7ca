package traffic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// asks runs a command of svcproxy, as a person would, and gives what it prints,
// on both streams, and its exit code.
func (n node) asks(t *testing.T, words ...string) (string, int) {
	t.Helper()
	return output(t, n.command(words...))
}

func (n node) command(words ...string) *exec.Cmd {
	return exec.Command(n.Binary, append(words, "--config", filepath.Join(n.Dir, "svcproxy.toml"))...)
}

func output(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// says wants an exit code, and these texts in what is printed.
func (n node) says(t *testing.T, code int, command string, texts ...string) {
	t.Helper()
	out, got := n.asks(t, strings.Fields(command)...)
	if got != code {
		t.Errorf("svcproxy %s: exit code %d, want %d", command, got, code)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("svcproxy %s does not say %q:\n%s", command, text, out)
		}
	}
	if t.Failed() {
		t.Logf("svcproxy %s:\n%s", command, out)
	}
}

// statusJSON is what the tests read of `svcproxy status -o json`.
type statusJSON struct {
	Healthy    bool
	Conditions []struct{ Kind, Subject, Text string }
	Sync       struct {
		Change  struct{ Seen, Parsed, Planned, Acknowledged time.Time }
		Running struct {
			VIPs, NewVIPs int
			Text          string
		}
	}
	Services []struct {
		Name, State      string
		Active, Inactive int
		Traffic          struct{ Connections, InBytes, OutBytes int }
		Virtuals         []struct {
			Address        netip.AddrPort
			Protocol, Port string
		}
		Endpoints []struct {
			Address               netip.AddrPort
			Protocol, Port, State string
			Weight, Active        int
			Drain                 struct{ Since, Deadline time.Time }
			Traffic               struct{ Connections int }
		}
	}
}

func (n node) status(t *testing.T, words ...string) statusJSON {
	t.Helper()
	st, err := n.readStatus(words...)
	must(t, err)
	return st
}

func (n node) readStatus(words ...string) (st statusJSON, err error) {
	var failed *exec.ExitError
	out, err := n.command(append([]string{"status", "-o", "json"}, words...)...).Output()
	if err != nil && !errors.As(err, &failed) { // it fails if anything is wrong, and says what it has
		return st, err
	}
	if err := json.Unmarshal(out, &st); err != nil {
		return st, fmt.Errorf("%w in\n%s", err, out)
	}
	return st, nil
}

// What svcproxy says of itself is what there is: connections that the kernel or
// the relay counts, a drain with its deadline, and the end of it.
func TestStatusTellsWhatHappensToConnections(t *testing.T) {
	n := newNode(t, "")
	n.says(t, 6, "status", "svcproxy: svcproxy does not run: no process listens at", "hint: systemctl status svcproxy")
	both := clusterIP("web", "10.96.0.20", `["10.2.1.10", "10.2.2.10"]`) + "drainTimeout = \"50s\"\n"
	one := clusterIP("web", "10.96.0.20", `["10.2.2.10"]`) + "drainTimeout = \"50s\"\n"
	n.start(t, both)
	n.says(t, 0, "status", "1 service, 1 virtual server, 2 real servers", "web", "serving")

	vip := netip.MustParseAddrPort("10.96.0.20:80")
	kept := dialBackend(t, n, vip, "pod1")
	must(t, lab.Eventually(patience, func() error { // the kernel adds up every two seconds
		s := n.status(t, "web").Services[0]
		if s.Active != 1 || s.Traffic.Connections == 0 || s.Traffic.InBytes == 0 || s.Traffic.OutBytes == 0 || s.Endpoints[0].Traffic.Connections == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	}))
	n.says(t, 0, "top -n 1 -d 500ms", "web", "10.2.1.10:7000", "1 active")

	n.serve(t, one)
	st := n.status(t, "web")
	if c := st.Sync.Change; c.Seen.IsZero() || c.Parsed.Before(c.Seen) || c.Planned.Before(c.Parsed) || c.Acknowledged.Before(c.Planned) {
		t.Errorf("the times of the change: %+v", c)
	}
	if e := st.Services[0].Endpoints[0]; e.State != "draining" || e.Active != 1 || e.Drain.Deadline.Sub(e.Drain.Since) != 50*time.Second {
		t.Errorf("endpoint %+v", e)
	}
	n.says(t, 0, "status web", "draining (1 conns, ", "s left)")
	n.says(t, 0, "status", "1 draining")
	kept.Reset()
	must(t, lab.Eventually(patience, func() error {
		if s := n.status(t, "web").Services[0]; len(s.Endpoints) != 1 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	}))
	n.says(t, 0, "events", "started", "1 changed: web (+0 ~1 -", "draining", "drained    10.2.1.10:7000 of 10.96.0.20:80/tcp")

	must(t, n.Stop())
	n.says(t, 6, "status", "does not run")
	if _, err := os.Stat(n.socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after the end: %v", err)
	}
}

func (n node) socket() string { return filepath.Join(n.Dir, "run", "svcproxy.sock") }

// Status names each problem and has its exit code. Everything else is served.
// When the problem is solved, status says so.
func TestStatusTellsWhatIsWrong(t *testing.T) {
	n := newLonelyNode(t, "")
	good := clusterIP("web", "10.96.0.20", `["10.2.1.10"]`)
	n.start(t, good)
	n.says(t, 0, "reload --wait")

	n.serve(t, good+clusterIP("empty", "10.96.0.30", "[]"))
	n.says(t, 8, "status", "1 without backends", "no backends: no endpoints")
	n.says(t, 8, "status empty")
	n.says(t, 0, "status web")
	n.says(t, 1, "status nobody", "svcproxy: no service nobody")

	must(t, n.Serve(good+"endpoint = []\n"))
	n.says(t, 3, "reload --wait", "services.toml:5: web: unknown key \"endpoint\"", "hint: what was good goes on being served")
	n.says(t, 7, "status", "degraded:", "services.toml:5: web: unknown key \"endpoint\"", "empty")

	n.tool(t, "ipvsadm", "-A", "-t", "10.96.0.40:80", "-s", "sed")
	must(t, n.Serve(good+clusterIP("taken", "10.96.0.40", `["10.2.1.10"]`)))
	n.says(t, 7, "reload --wait", "-A -t 10.96.0.40:80 -s wrr is wanted, but another program made",
		"hint: the rest is served")
	n.says(t, 7, "status", "conflict: -A -t 10.96.0.40:80 -s wrr is wanted, but another program made")
	n.says(t, 7, "status taken", "belongs to another program: -A -t 10.96.0.40:80 -s sed")
	n.tool(t, "ipvsadm", "-D", "-t", "10.96.0.40:80")
	n.says(t, 0, "reload --wait")
	n.says(t, 0, "status", "taken", "serving")

	n.tool(t, "ipvsadm", "-d", "-t", "10.96.0.20:80", "-r", "10.2.1.10:7000")
	n.says(t, 0, "reload --wait")
	n.says(t, 0, "status", "last drift")
	n.says(t, 0, "events", "refused", "accepted", "conflict", "drift      + -a -t 10.96.0.20:80 -r 10.2.1.10:7000 -m -w 1")
}

// Events are told as they come, also those of the next svcproxy after a restart.
func TestEventsAreFollowed(t *testing.T) {
	n := newLonelyNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", `["10.2.1.10"]`))
	cmd := n.command("events", "-f", "-o", "json")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	next := func() (e struct {
		Kind     string
		Services []string
	}) {
		if !lines.Scan() {
			t.Fatalf("no more lines: %v", lines.Err())
		}
		must(t, json.Unmarshal(lines.Bytes(), &e))
		return e
	}
	if e := next(); e.Kind != "started" {
		t.Errorf("first %+v", e)
	}
	n.serve(t, clusterIP("web", "10.96.0.20", `["10.2.1.10", "10.2.2.10"]`))
	e := next()
	for e.Kind == "sysctl" { // those that the start has changed
		e = next()
	}
	if e.Kind != "table" || len(e.Services) != 1 || e.Services[0] != "web" {
		t.Errorf("then %+v", e)
	}
	must(t, n.Stop())
	must(t, n.Start())
	for e = next(); e.Kind != "started"; e = next() {
	}
	must(t, cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("events -f: exit code %d after ^C, want 0", code)
	}
}

// The socket is for root and its group, and a start replaces what a kill left.
func TestWhoMayAsk(t *testing.T) {
	n := newLonelyNode(t, "")
	services := clusterIP("web", "10.96.0.20", `["10.2.1.10"]`)
	n.start(t, services)
	if st, err := os.Stat(n.socket()); err != nil || st.Mode() != os.ModeSocket|0o660 {
		t.Errorf("the socket: %v, %v", st.Mode(), err)
	}
	open(t, n.Dir)
	stranger := n.command("status")
	// The checkout may be in a folder that others may not enter.
	program, err := os.ReadFile(stranger.Path)
	must(t, err)
	stranger.Path = filepath.Join(n.Dir, "svcproxy")
	must(t, os.WriteFile(stranger.Path, program, 0o755))
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, code := output(t, stranger); code != 5 || !strings.Contains(out, "member of the group svcproxy") {
		t.Errorf("a stranger: exit code %d, %s", code, out)
	}
	member, code, want := n.command("explain", "10.96.0.20:80", "--from", "node"), 0, "served by 10.2.1.10:7000"
	if modeOf(t) == "userspace" {
		code, want = 1, "no packet can be explained"
	}
	member.Path, member.SysProcAttr = stranger.Path, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{0}}}
	if out, got := output(t, member); got != code || !strings.Contains(out, want) {
		t.Errorf("a member of the socket's group: exit code %d, %s", got, out)
	}
	n.Kill()
	n.says(t, 6, "status", "does not run")
	mark := n.Log.Len()
	must(t, n.Start())
	if _, err := n.Wait(mark, "msg=starting"); err != nil {
		t.Fatal(err)
	}
	must(t, lab.Eventually(patience, func() error {
		if out, code := n.asks(t, "status"); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	}))
}

// open lets everybody into a folder of the test's, and the way to it.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
}

// A clock that is set back does not change how long svcproxy has run, nor how long
// ago the last sync was.
func TestStatusAfterTheClockWasSetBack(t *testing.T) {
	inGuest(t, "sets the machine's clock")
	n := newNode(t, "")
	n.start(t, web)
	set := func(by time.Duration) {
		t.Helper()
		now := unix.NsecToTimeval(time.Now().Add(by).UnixNano())
		must(t, unix.Settimeofday(&now))
	}
	set(-24 * time.Hour)
	defer set(24 * time.Hour)
	out, _ := n.asks(t, "status")
	days := regexp.MustCompile(`(?:up|last sync:|last change:) \d+[dh]`)
	if !strings.Contains(out, "up ") || strings.Contains(out, "up 0s") || days.MatchString(out) {
		t.Errorf("after the clock was set back:\n%s", out)
	}
}
