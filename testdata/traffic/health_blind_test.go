package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// What is svcproxy's own fault, or its node's, takes no endpoint down.
func TestOwnFaultsTakeNothingDown(t *testing.T) {
	t.Parallel()
	n := newNode(t, "")
	services := []checkedService{
		{name: "connects", vip: "10.96.4.1", check: "{ type = \"tcp\", " + quick + " }"},
		{name: "answers", vip: "10.96.4.2", check: "{ type = \"tcp\", send = \"\\n\", expect = \"pod\", " + quick + " }"},
		{name: "web", vip: "10.96.4.3", port: lab.HTTPPort, check: "{ type = \"http\", " + quick + " }"},
		{name: "pinged", vip: "10.96.4.4", check: "{ type = \"ping\", " + quick + " }"},
	}
	n.start(t, textOf(services))
	for _, c := range []struct {
		name string
		run  func(*testing.T, node)
	}{
		{"stopped for ten seconds", stopped},
		{"no file descriptor is left", noDescriptor},
		{"every link is down", linksDown},
		{"no route", noRoute},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, n)
			for _, s := range services[:2] {
				n.wantOnly(t, s.front(), 6, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
			}
		})
	}
}

// probes waits for the time in which quick checks take three dead endpoints down.
func probes() { time.Sleep(4 * time.Second) }

func stopped(t *testing.T, n node) {
	open := newLoad(t)
	open.add("connections meanwhile", func() error { _, err := n.Client.Ask("tcp", addrPort("10.96.4.1:80")); return err })
	w := n.watch(t)
	must(t, unix.Kill(n.Pid(), unix.SIGSTOP))
	time.Sleep(10 * time.Second)
	must(t, unix.Kill(n.Pid(), unix.SIGCONT))
	probes()
	w.wantNone(t, "stopped")
	open.wantServed(t)
}

// noDescriptor lets svcproxy open no further file. It says that it is blind, and
// later that it sees again.
func noDescriptor(t *testing.T, n node) {
	var usual unix.Rlimit
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, nil, &usual))
	w := n.watch(t)
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: usual.Max}, nil))
	defer unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &usual, nil)
	probes() // void results for 3 seconds: the checker is blind
	probes()
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &usual, nil))
	must(t, lab.Eventually(time.Minute, func() error {
		if h := n.health(t); h.Blind != "" {
			return errors.New(h.Blind)
		}
		return nil
	}))
	w.wantNone(t, "without a file descriptor")
	n.eventually(t, time.Minute, "events", "checkerBlind ", "checkerSees ")
	if out, _ := n.asks(t, "events"); strings.Contains(out, "endpointDown ") {
		t.Errorf("an endpoint went down:\n%s", out)
	}
}

// healthJSON is what the tests read of all health checks in `svcproxy status -o json`.
type healthJSON struct {
	Blind     string
	HeldUntil time.Time
	States    map[string]int
}

func (n node) health(t *testing.T) healthJSON {
	t.Helper()
	out, _ := n.asks(t, "status", "-o", "json")
	var st struct{ Health healthJSON }
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return st.Health
}

// linksDown takes the links to every backend. Until more than half of the endpoints
// failed, each of them may be dead by itself. Then it is a mass failure, and all of
// them count as up again.
func linksDown(t *testing.T, n node) {
	set := func(state string) {
		for _, b := range n.Backends {
			must(t, n.Lab.Node.IP(fmt.Sprintf("link set %s %s", b.Name, state)))
		}
	}
	set("down")
	defer set("up")
	must(t, lab.Eventually(time.Minute, func() error {
		if h := n.health(t); h.HeldUntil.IsZero() || h.States["up"]+h.States["failing"] > 0 {
			return fmt.Errorf("no mass failure of all endpoints is held: %+v", h)
		}
		return nil
	}))
	n.eventually(t, time.Minute, "events", "massFailure ")
	w := n.watch(t)
	weights, err := n.Lab.Node.Weights()
	must(t, err)
	for real, weight := range weights {
		if weight != 1 {
			t.Errorf("in a mass failure %v has weight %d", real, weight)
		}
	}
	set("up")
	probes()
	w.wantNone(t, "in a mass failure")
}

// noRoute takes the node's way to every backend. The states of the mass failure
// before are still held.
func noRoute(t *testing.T, n node) {
	w := n.watch(t)
	must(t, n.Lab.Node.IP("rule add pref 10 to 10.2.0.0/16 unreachable"))
	probes()
	if h := n.health(t); h.HeldUntil.IsZero() || h.States["up"]+h.States["failing"] > 0 {
		t.Errorf("no mass failure of all endpoints is held: %+v", h)
	}
	must(t, n.Lab.Node.IP("rule del pref 10 to 10.2.0.0/16 unreachable"))
	probes()
	w.wantNone(t, "without a route")
}
