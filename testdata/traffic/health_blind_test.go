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
		{name: "connects", vip: "10.96.4.1", check: "{ type = \"tcp\", " + patient + " }"},
		{name: "answers", vip: "10.96.4.2", check: "{ type = \"tcp\", send = \"\\n\", expect = \"pod\", " + patient + " }"},
		{name: "web", vip: "10.96.4.3", port: lab.HTTPPort, check: "{ type = \"http\", " + patient + " }"},
		{name: "pinged", vip: "10.96.4.4", check: "{ type = \"ping\", " + patient + " }"},
	}
	n.start(t, textOf(services))
	n.allUp(t, 3*len(services))
	for _, c := range []struct {
		name string
		run  func(*testing.T, node)
	}{
		{"stopped for ten seconds", stopped},
		{"no file descriptor is left", noDescriptor},
		{"no file descriptor is left for any probe", func(t *testing.T, n node) {
			n.serve(t, textOf(services[1:])) // without those that only connect
			blind(t, n)
			n.serve(t, textOf(services))
			n.allUp(t, 3*len(services))
		}},
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

// probes waits for the time in which these checks take three dead endpoints down.
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

// noDescriptor lets svcproxy open no further file. Probes that only connect go on in
// sockets that are kept, if the backend answers at once: so it need not be blind.
func noDescriptor(t *testing.T, n node) { n.withoutDescriptors(t, probes) }

// blind does so where every probe needs a new descriptor. svcproxy says that it is blind,
// and later that it sees again.
func blind(t *testing.T, n node) {
	mark := n.Log.Len()
	n.withoutDescriptors(t, func() {
		_, err := n.Wait(mark, "event=checkerBlind ")
		must(t, err)
		probes()
	})
	n.eventually(t, patience, "events", "checkerBlind ", "checkerSees ")
}

// withoutDescriptors lets svcproxy open no further file until during returns. No endpoint
// may go down.
func (n node) withoutDescriptors(t *testing.T, during func()) {
	t.Helper()
	var usual unix.Rlimit
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, nil, &usual))
	w := n.watch(t)
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: usual.Max}, nil))
	defer unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &usual, nil)
	during()
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &usual, nil))
	must(t, lab.Eventually(patience, func() error {
		if h := n.health(t); h.Blind != "" {
			return errors.New(h.Blind)
		}
		return nil
	}))
	w.wantNone(t, "without a file descriptor")
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
	var st struct{ Health healthJSON }
	must(t, lab.Eventually(patience, func() error { // a busy machine may not answer in time
		out, _ := n.asks(t, "status", "-o", "json")
		if err := json.Unmarshal([]byte(out), &st); err != nil {
			return fmt.Errorf("%w in\n%s", err, out)
		}
		return nil
	}))
	return st.Health
}

// linksDown takes the links to every backend. The default route stays, so packets are sent and not answered.
func linksDown(t *testing.T, n node) {
	set := func(state string) {
		for _, b := range n.Backends {
			must(t, n.Lab.Node.IP(fmt.Sprintf("link set %s %s", b.Name, state)))
		}
	}
	n.outage(t, "while links are down", func() { set("down") }, func() { set("up") })
	n.eventually(t, patience, "events", "massFailure ")
}

// noRoute takes the node's way to every backend.
func noRoute(t *testing.T, n node) {
	rule := func(verb string) func() {
		return func() { must(t, n.Lab.Node.IP("rule "+verb+" pref 10 to 10.2.0.0/16 unreachable")) }
	}
	n.unrouted(t, "without a route", rule("add"), rule("del"))
}

// unrouted takes the routes to every endpoint. Probes that this node cannot send count as nothing, and status says so.
func (n node) unrouted(t *testing.T, when string, begin, end func()) {
	w := n.watch(t)
	since := time.Now()
	begin()
	err := lab.Eventually(patience, func() error {
		out, _ := n.asks(t, "status")
		if !strings.Contains(out, ": no route: ") {
			return fmt.Errorf("%s: status does not say so:\n%s", when, out)
		}
		return nil
	})
	probes()
	end()
	took := time.Since(since)
	must(t, err)
	n.allUp(t, 12)
	if took > 50*time.Second {
		w.end()
		t.Logf("%s: a minute was over before the routes were back: this machine is starved", when)
		return
	}
	w.wantNone(t, when)
}

// outage fails every endpoint. Until more than half of them failed, each may be dead by itself. Then it is a mass
// failure: all of them count as up again, until it is over.
func (n node) outage(t *testing.T, when string, begin, end func()) {
	begin()
	var held time.Time
	err := lab.Eventually(patience, func() error {
		h := n.health(t)
		if held = h.HeldUntil; held.IsZero() || h.States["up"]+h.States["failing"] > 0 {
			return fmt.Errorf("no mass failure of all endpoints is held: %+v", h)
		}
		return nil
	})
	if err != nil {
		end()
		t.Fatal(err)
	}
	// The answer to an order waits for a sync with everything that is known by now.
	n.order(t, 0, "weight connects/10.2.1.10 1")
	n.order(t, 0, "weight connects/10.2.1.10 default")
	w := n.watch(t)
	weights, err := n.Lab.Node.Weights()
	must(t, err)
	for real, weight := range weights {
		if weight != 1 {
			t.Errorf("%s: in the mass failure %v has weight %d", when, real, weight)
		}
	}
	probes()
	end()
	n.allUp(t, 12)
	if time.Now().After(held) {
		w.end()
		t.Logf("%s: the mass failure was over before all endpoints were up: this machine is starved", when)
		return
	}
	w.wantNone(t, when)
}
