package traffic

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// nodeDefaults are for checks that give nothing themselves. None of them is the
// usual value.
const nodeDefaults = `health.interval = "300ms"
health.timeout = "3s"
health.fastInterval = "100ms"
health.downInterval = "200ms"
health.fall = 1
health.rise = 1
health.jitter = 0.0
health.onDown = "cut"
health.onAllDown = "closed"
health.slowStart = "1h"
health.execUser = "nobody"
health.execDirs = ["/bin"]
`

// A check that is one word gets everything else from table health, and it follows
// when that changes.
func TestNodesDefaultsOfHealthChecks(t *testing.T) {
	n := newCheckedNode(t, nodeDefaults)
	web := checkedService{name: "web", vip: "10.96.9.1", port: 7901, check: `"tcp"`, more: `scheduler = "wrr"`}
	// nobody has this id on Debian.
	asked := checkedService{name: "asked", vip: "10.96.9.2",
		check: `{ type = "exec", command = "/bin/sh", args = ["-c", "test $(id -u) = 65534"], initial = "down", interval = "1s", timeout = "5s", fall = 3 }`}
	ports := n.openPorts(t, 7901, lines)
	n.start(t, web.text()+asked.text())
	n.becomes(t, patience, true, realsOf([]checkedService{asked}, 1)...)

	ends := n.hold(t, web.front(), "pod1", (*lab.Conn).Ask)
	w := n.watch(t)
	failed := time.Now()
	must(t, ports[0].Close())
	// One result decides, so the fast interval has no part in it.
	if took := n.becomes(t, patience, false, web.real(1)).Sub(failed); w.freely() && took > 5*time.Second {
		t.Errorf("detected after %v, want one interval of 300 ms", took)
	}
	must(t, lab.Eventually(patience, func() error {
		a, err := ends.Ask() // rules change before tracked connections end
		if err == nil {
			return fmt.Errorf("the connection to the endpoint that is cut: %v", a)
		}
		return nil
	}))
	must(t, ports[0].Open())
	healed := time.Now()
	if took := n.becomes(t, patience, true, web.real(1)).Sub(healed); w.freely() && took > 5*time.Second {
		t.Errorf("back after %v, want one interval of 200 ms", took)
	}
	if first, other := n.weightOf(t, web.real(1)), n.weightOf(t, web.real(2)); first*16 != other {
		t.Errorf("at the start of a slow start the weights are %d and %d, want a sixteenth", first, other)
	}
	n.wantFew(t, web.front(), "pod1")
	for _, p := range ports {
		must(t, p.Close())
	}
	n.becomes(t, patience, false, web.real(1), web.real(2), web.real(3))
	wantFrom(t, n.Client, web.front().String(), "") // onAllDown is closed

	must(t, n.Configure("health.minHealthy = 1\nhealth.slowStart = \"0s\"\nhealth.execUser = \"nobody\"\nhealth.execDirs = [\"/bin\"]\nhealth.massFailure = \"believe\"\n"))
	n.becomes(t, patience, true, web.real(1), web.real(2), web.real(3))
	n.getsWeight(t, web.real(1), 1) // without a slow start
}

// wantFew wants a backend with a sixteenth of the others' weight to get fewer new connections: two of 66, and a third if
// the weights were equal.
func (n node) wantFew(t *testing.T, to netip.AddrPort, backend string) {
	t.Helper()
	got := map[string]int{}
	for range 66 {
		a, err := n.askNew(to, (*lab.Conn).Ask)
		must(t, err)
		got[a.Backend]++
	}
	if got[backend] > 12 {
		t.Errorf("of 66 new connections to %s the backends got %v, want about two for %s", to, got, backend)
	}
}
