package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// TestCrowdBlindsNobody: 25,000 targets of other authors are dead, hang or refuse, at their own paces. A backend of web
// that dies is out within 5 s, and back within 10 s: a shared machine has twice the time. An emulated one has a hundredth of
// the targets.
func TestCrowdBlindsNobody(t *testing.T) {
	n := newCheckedNode(t, "")
	each := 2500
	if emulated() {
		each = 25
	}
	silent, refuses := netip.MustParseAddr("10.240.0.0"), netip.MustParseAddr("10.244.0.0")
	leads := func(to netip.Addr, backend string) {
		_, err := n.Lab.Node.Run("ip", "route", "add", to.String()+"/14", "via", backend)
		must(t, err)
	}
	leads(silent, "10.2.2.10")
	leads(refuses, "10.2.3.10")
	_, err := n.Backends[2].Run("ip", "route", "add", "local", refuses.String()+"/14", "dev", "lo")
	must(t, err)
	checks, hangs := filepath.Join(n.Dir, "checks"), "#!/bin/sh\nexec sleep 100\n"
	open(t, n.Dir)
	must(t, os.Mkdir(checks, 0o755))
	must(t, os.WriteFile(filepath.Join(checks, "hangs"), []byte(hangs), 0o755))
	must(t, n.Configure(fmt.Sprintf("health.execDirs = [%q]\n", checks)))
	must(t, os.MkdirAll(filepath.Join(n.Dir, "services.d"), 0o755))
	addr := map[bool]netip.Addr{false: silent, true: refuses}
	for i := range 10 {
		check := []string{
			`"tcp"`, `{ type = "tcp", interval = "2s", timeout = "20s" }`, `{ type = "http", interval = "1s", timeout = "1s" }`,
			fmt.Sprintf(`{ type = "exec", command = %q, interval = "2s", timeout = "20s" }`, filepath.Join(checks, "hangs")), `"tcp"`,
		}[i%5]
		var list []string
		for range each {
			a := addr[i%5 == 4].Next()
			addr[i%5 == 4], list = a, append(list, fmt.Sprintf("%q", a))
		}
		s := checkedService{name: fmt.Sprintf("crowd%d", i), vip: fmt.Sprintf("10.96.30.%d", i+1), endpoints: "[" + strings.Join(list, ", ") + "]", check: check, port: 9}
		must(t, os.WriteFile(filepath.Join(n.Dir, "services.d", s.name+".toml"), []byte(s.text()), 0o644))
	}
	web := checkedService{name: "web", vip: "10.96.30.100", port: 7930, check: `"tcp"`}
	first := n.openPorts(t, web.port, lines)[0]
	n.start(t, web.text())
	wants := func(what string, most time.Duration, pod1 bool) {
		t.Helper()
		took := stopwatch(t)
		must(t, lab.Eventually(patience, func() error {
			seen := false
			for range 60 { // a third of them is pod1's, by chance
				a, err := n.Client.Ask("tcp", web.front())
				if err != nil {
					return err
				}
				seen = seen || a.Backend == "pod1"
			}
			if seen != pod1 {
				return fmt.Errorf("pod1 answers: %v", seen)
			}
			return nil
		}))
		took(what, most)
	}
	wants("all of web are up", patience, true)
	for range 3 {
		must(t, first.Close())
		wants("a dead backend is out", 2*5*time.Second, false)
		must(t, first.Open())
		wants("it is back", 2*10*time.Second, true)
	}
	if states := n.health(t).States; states["down"] < 2*each {
		t.Errorf("states %v: at least %d are down that refuse or hang", states, 2*each)
	} else {
		t.Logf("states %v", states)
	}
}
