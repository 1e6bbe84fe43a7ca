package traffic

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// stands is what an order says whose sync takes longer than 15 s.
const stands = "the order stands, but the kernel does not have it yet"

// order runs a command on the node, and wants this exit code and these words.
func (n node) order(t *testing.T, code int, command string, words ...string) {
	t.Helper()
	given, mark := strings.Fields(command), n.Log.Len()
	out, got, err := n.Command(given[0], given[1:]...)
	must(t, err)
	if code == 0 && strings.Contains(out, stands) {
		n.synced(t, mark)
		got = 0
	}
	if got != code {
		t.Errorf("svcproxy %s: exit code %d, want %d:\n%s", command, got, code, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("svcproxy %s does not say %q:\n%s", command, w, out)
		}
	}
}

// ordered are the services of these tests. single has one endpoint.
var ordered = clusterIP("web", "10.96.0.20", allV4) + clusterIP("weighted", "10.96.0.21", allV4) +
	clusterIP("single", "10.96.0.22", `["10.2.1.10"]`)

var (
	orderedFront  = netip.MustParseAddrPort("10.96.0.20:80")
	weightedFront = netip.MustParseAddrPort("10.96.0.21:80")
)

// orderedReal is the real server of web on a backend.
func orderedReal(pod int) lab.Real {
	return lab.Real{Network: "tcp", Virtual: orderedFront, Addr: netip.MustParseAddrPort(fmt.Sprintf("10.2.%d.10:%d", pod, lab.LinePort))}
}

// A drain by command takes new connections from an endpoint and leaves it those that it has. When the command returns
// the kernel has it. No client is refused, a kill changes nothing, and undrain gives the endpoint back.
func TestOperatorDrains(t *testing.T) {
	n := newNode(t, "")
	n.start(t, ordered)
	open := newLoad(t)
	for _, name := range []string{"pod1", "pod2"} {
		c := n.hold(t, orderedFront, name, (*lab.Conn).Ask)
		open.add("the open connection to "+name, func() error { _, err := c.Ask(); return err })
	}
	open.add("a new connection each", func() error { _, err := n.askNew(orderedFront, (*lab.Conn).Ask); return err })

	n.order(t, 1, "drain 10.2.1.10", "the last usable endpoint of single", "--force")
	n.wantOnly(t, orderedFront, 9, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
	n.order(t, 0, "drain web/10.2.1.10 --reason upgrade", "web/10.2.1.10: drained, 1 endpoint")
	n.wantOnly(t, orderedFront, 20, (*lab.Conn).Ask, "pod2", "pod3")
	n.order(t, 1, "drain web/10.2.1.10 --reason upgrade --wait=2s", "connections are left after ", ": 1 active, ")
	n.order(t, 0, "drain web/10.2.2.10")
	n.wantOnly(t, orderedFront, 20, (*lab.Conn).Ask, "pod3")
	n.order(t, 1, "drain web/10.2.3.10", "the last usable endpoint of web")
	n.order(t, 1, "drain 10.2.0.0/16 --service web", "the last usable endpoint of web")
	n.order(t, 0, "undrain web/10.2.2.10", "web/10.2.2.10: undrained, 1 endpoint")
	n.wantOnly(t, orderedFront, 20, (*lab.Conn).Ask, "pod2", "pod3")
	n.order(t, 0, "overrides", "web/10.2.1.10", "root", "upgrade")
	n.order(t, 0, "status web", `drained by root`, "upgrade", "0 (source 1)")
	n.order(t, 0, "events", "order", `drain web/10.2.1.10 by root (uid 0): "upgrade"`, "orderTakenBack")

	w := n.watch(t)
	n.Kill()
	mark := n.Log.Len()
	must(t, n.Start())
	_, err := n.Wait(mark, `msg=starting`)
	must(t, err)
	n.eventually(t, patience, "overrides", "web/10.2.1.10", "root", "upgrade")
	n.eventually(t, patience, "status web", "drained by root")
	n.wantOnly(t, orderedFront, 20, (*lab.Conn).Ask, "pod2", "pod3")
	w.wantNone(t, "over the restart")

	n.order(t, 0, "undrain web/10.2.1.10 --reason done")
	n.wantOnly(t, orderedFront, 30, (*lab.Conn).Ask, "pod1", "pod2", "pod3")
	n.order(t, 0, "overrides", "no orders")
	n.order(t, 1, "undrain web/10.2.1.10", "is not drained or disabled")
	open.goOn(t, 20)
	open.wantServed(t)
}

// A drain ends by itself at its time, and --wait ends with the last connection.
func TestDrainThatEnds(t *testing.T) {
	n := newNode(t, "")
	n.start(t, ordered)
	c := n.hold(t, orderedFront, "pod1", (*lab.Conn).Ask)
	w, given := n.watch(t), time.Now()
	n.order(t, 0, "drain web/10.2.2.10 --for 20s", "until")
	_, err := w.down(time.Minute, orderedReal(2), given)
	must(t, err)
	w.end()
	n.becomes(t, patience, true, orderedReal(2))
	n.eventually(t, patience, "overrides", "no orders")
	n.eventually(t, patience, "events", "orderOver")

	waiting := make(chan string, 1)
	go func() {
		out, code := n.asks(t, "drain", "web/10.2.1.10", "--wait=1m")
		if strings.Contains(out, stands) {
			out, code = n.asks(t, "drain", "web/10.2.1.10", "--wait=1m")
		}
		waiting <- fmt.Sprintf("exit code %d: %s", code, out)
	}()
	n.becomes(t, patience, false, orderedReal(1))
	wantStill(t, c, "pod1")
	must(t, c.Close()) // IPVS has it for 2 minutes more
	select {
	case said := <-waiting:
		if !strings.HasPrefix(said, "exit code 0") || !strings.Contains(said, "connections: 0 active, ") {
			t.Error(said)
		}
	case <-time.After(3 * time.Minute):
		t.Error("drain --wait does not end")
	}
}

// disable cuts what a drain would leave, and a weight divides new connections anew.
func TestDisableAndWeight(t *testing.T) {
	n := newNode(t, "")
	n.start(t, ordered)
	cut, kept := n.hold(t, orderedFront, "pod1", (*lab.Conn).Ask), n.hold(t, orderedFront, "pod2", (*lab.Conn).Ask)
	n.order(t, 0, "disable web/10.2.1.10", "web/10.2.1.10: disabled, 1 endpoint")
	n.wantOnly(t, orderedFront, 20, (*lab.Conn).Ask, "pod2", "pod3")
	if a, err := cut.Ask(); err == nil && a.Backend == "pod1" {
		t.Errorf("the connection to a disabled endpoint goes on")
	}
	wantStill(t, kept, "pod2")
	n.order(t, 0, "enable web/10.2.1.10")
	n.wantOnly(t, orderedFront, 20, (*lab.Conn).Ask, "pod1", "pod2", "pod3")

	n.order(t, 0, "weight weighted/10.2.3.10 300%", "weight 300%")
	n.wantShares(t, weightedFront, map[string]float64{"pod1": 0.2, "pod2": 0.2, "pod3": 0.6})
	n.order(t, 0, "weight weighted/10.2.1.10 4")
	n.wantShares(t, weightedFront, map[string]float64{"pod1": 0.5, "pod2": 0.125, "pod3": 0.375})
	n.order(t, 0, "weight weighted/10.2.1.10 default")
	n.order(t, 0, "weight weighted/10.2.3.10 default")
	n.wantShares(t, weightedFront, map[string]float64{"pod1": 1. / 3, "pod2": 1. / 3, "pod3": 1. / 3})
}

// wantShares opens 240 connections and wants each backend to have its share of them.
func (n node) wantShares(t *testing.T, to netip.AddrPort, shares map[string]float64) {
	t.Helper()
	const connections = 240
	who := map[string]int{}
	for range connections {
		a, err := n.askNew(to, (*lab.Conn).Ask)
		must(t, err)
		who[a.Backend]++
	}
	for name, share := range shares {
		if want := share * connections; math.Abs(float64(who[name])-want) > slack(t, want, share, 0.05*connections) {
			t.Errorf("%s has %d of %d connections, want %.0f: %v", name, who[name], connections, want, who)
		}
	}
}

// A drained node sends load balancers away, by /healthz and health check node ports, also after a kill. What arrives is
// served.
func TestOperatorDrainsTheNode(t *testing.T) {
	n := newNode(t, thisNode+listeners)
	n.start(t, probed(`[{ address = "10.2.1.10", nodeName = "n1" }]`))
	client := n.Client.HTTP(lab.AskLimit)
	open := newLoad(t)
	vip := netip.MustParseAddrPort("198.51.100.80:80")
	c := n.hold(t, vip, "pod1", (*lab.Conn).Ask)
	open.add("the open connection", func() error { _, err := c.Ask(); return err })
	open.add("a new connection each", func() error { _, err := n.askNew(vip, (*lab.Conn).Ask); return err })
	answer := func(code int) {
		t.Helper()
		for _, url := range []string{"http://192.0.2.1:10256/healthz", "http://192.0.2.1:32000/"} {
			must(t, lab.Eventually(patience, func() error {
				if got, body, err := get(client, url); err != nil || got != code {
					return fmt.Errorf("%s: %d, %v, want %d: %s", url, got, err, code, body)
				}
				return nil
			}))
		}
	}
	answer(http.StatusOK)
	n.order(t, 0, "node drain --reason upgrade", `drained by root: "upgrade"`)
	answer(http.StatusServiceUnavailable)
	n.order(t, 1, "node drain --wait=2s", "left after ")
	n.order(t, 0, "node status -o json", `"by": "root"`)
	n.Kill()
	must(t, n.Start())
	answer(http.StatusServiceUnavailable)
	n.eventually(t, patience, "status", "this node drained by root")
	n.order(t, 0, "node undrain", "not drained")
	answer(http.StatusOK)
	n.order(t, 1, "node undrain", "the node is not drained")
	open.goOn(t, 20)
	open.wantServed(t)
}

// health probe probes as the daemon does, and check --probe files before they go live.
func TestProbesByCommand(t *testing.T) {
	n := newCheckedNode(t, "")
	s := checkedService{name: "web", vip: "10.96.4.1", port: 7400, check: "{ type = \"tcp\", " + patient + " }"}
	ports := n.openPorts(t, 7400, lines)
	n.start(t, s.text())
	n.order(t, 0, "health probe web/10.2.1.10", "tcp 10.2.1.10:7400", "connected", "ok, after")
	n.eventually(t, patience, "health", "3 of 3 targets up", "10.2.1.10:7400", "up ", "ok in ", "in ")
	n.order(t, 0, "check --probe "+filepath.Join(n.Dir, "services.toml"), "3 good probes")
	must(t, ports[0].Close())
	n.order(t, 1, "health probe web/10.2.1.10:7400", "bad: refused")
	n.order(t, 1, "check --probe "+filepath.Join(n.Dir, "services.toml"), "services.toml:1: web: endpoint 10.2.1.10 port 7400: probe tcp 10.2.1.10:7400: refused")
	n.eventually(t, patience, "health web", "2 of 3 targets up, 1 down", "down ", "refused in ")
}
