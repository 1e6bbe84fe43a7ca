package traffic

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// endures returns how often a test repeats what it is about: few times, or as often as SVCPROXY_ENDURANCE says, which
// is how many steps TestRandomOrders takes. make test-endurance has 1,000.
func endures(t *testing.T, steps, few, many int) (again, walk int) {
	t.Helper()
	text := os.Getenv("SVCPROXY_ENDURANCE")
	if text == "" {
		return few, steps
	}
	walk, err := strconv.Atoi(text)
	must(t, err)
	return many, walk
}

// applied waits until the kernel is as the files say.
func (n node) applied(t *testing.T, when string) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		out, code, err := n.Command("reload", "--wait")
		if err == nil && code != 0 {
			err = fmt.Errorf("reload: exit code %d\n%s", code, out)
		}
		return err
	}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
}

// underTraffic puts clients on web at addresses of both families: one connection, one UDP socket, and new connections.
func (n node) underTraffic(t *testing.T) *load {
	l := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80", "198.51.100.80:80"} {
		l.put(t, n.Client, to)
	}
	return l
}

// TestKilledUnderTraffic: svcproxy is killed at a random moment after a change of its files, 14 times. No client loses a
// question, and after each start the kernel is as the files want it. Mode userspace serves again after each start.
func TestKilledUnderTraffic(t *testing.T) {
	few := 4
	if emulated() {
		few = 2
	}
	kills, _ := endures(t, 0, few, 14)
	n := newNode(t, "")
	more := web + clusterIP("more", "10.96.0.21", allV4)
	n.start(t, more)
	want := map[string]lab.Reading{more: n.read(t)}
	n.serve(t, web)
	want[web] = n.read(t)
	var clients *load
	if n.Mode != "userspace" {
		clients = n.underTraffic(t)
	}
	for i := range kills {
		file := []string{more, web}[i%2]
		must(t, n.Serve(file))
		after := time.Duration(rand.Int64N(int64(300 * time.Millisecond)))
		time.Sleep(after) // the moment is what this test is about
		n.Kill()
		if clients != nil {
			clients.goOn(t, 10)
		}
		must(t, n.Start())
		n.applied(t, fmt.Sprintf("killed %v after a change", after))
		n.healed(t, want[file])
		n.wantWeb(t, "after a kill")
		if t.Failed() {
			t.Fatalf("kill %d, %v after a change", i+1, after)
		}
	}
	if clients != nil {
		clients.goOn(t, 20)
		clients.wantServed(t)
	}
}

// TestUpgradeAndBackUnderTraffic: the program of an earlier commit is stopped, this one started in its place, and the
// other way round, as a package does. No client loses a question, and 50 open connections stay; those of mode userspace
// end with the process.
func TestUpgradeAndBackUnderTraffic(t *testing.T) {
	former, err := filepath.Abs(formerBinary)
	must(t, err)
	if _, err := os.Stat(former); err != nil {
		t.Skipf("no earlier svcproxy: make %s makes it, of a clone that has the commit: %v", formerBinary[len("../../"):], err)
	}
	rounds, _ := endures(t, 0, 1, 3)
	n := newNode(t, "")
	present := n.Binary
	n.Binary = former
	n.start(t, web)
	asBefore := n.read(t)
	var clients *load
	var held []*lab.Conn
	if n.Mode != "userspace" {
		clients, held = n.underTraffic(t), n.held(t, netip.MustParseAddrPort("10.96.0.20:80"), 50)
	}
	becomes := func(binary string) {
		must(t, n.Stop())
		n.Binary = binary
		must(t, n.Start())
		n.applied(t, binary)
		n.wantWeb(t, binary)
		if clients == nil {
			return
		}
		if lost := unanswered(held); lost > 0 {
			t.Errorf("%s: %d of %d connections are lost", binary, lost, len(held))
		}
	}
	for range rounds {
		becomes(present)
		becomes(former)
		n.healed(t, asBefore)
	}
	becomes(present)
	if clients != nil {
		clients.goOn(t, 20)
		clients.wantServed(t)
	}
}

// formerBinary is what `make bin/svcproxy-former` makes of an earlier commit.
const formerBinary = "../../bin/svcproxy-former"
