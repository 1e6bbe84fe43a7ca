package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// sticky is a service web with session affinity and TCP and UDP ports, on both
// families.
func sticky(timeout, endpoints string) string {
	return fmt.Sprintf(`
[services.web]
clusterIPs = ["10.96.0.20", "fd00:96::20"]
ports = [
  { name = "tcp", port = 80, targetPort = 7000 },
  { name = "udp", port = 80, targetPort = 7000, protocol = "UDP" },
]
sessionAffinity = "ClientIP"
sessionAffinityTimeout = %q
endpoints = %s
`, timeout, endpoints)
}

// A held client is one that affinity holds to a backend.
type held struct {
	vip         netip.AddrPort
	open        *lab.Conn
	first, next string // backends
}

// A client whose backend drains keeps its open connection, is with another from
// its next one on, and stays there when the first returns. What holds clients to
// the backend does not hold up its end.
func TestAffinityOfAClientWhoseBackendDrains(t *testing.T) {
	n := newNode(t, "")
	all := sticky("1h", allPods)
	n.start(t, all)
	n.healthy(t)
	clients := []*held{{vip: netip.MustParseAddrPort("10.96.0.20:80")}, {vip: netip.MustParseAddrPort("[fd00:96::20]:80")}}
	for _, c := range clients {
		var err error
		c.open, err = n.Client.Dial("tcp", c.vip)
		must(t, err)
		defer c.open.Close()
		a, err := c.open.Ask()
		must(t, err)
		c.first = a.Backend
	}
	var others []string
	for _, b := range n.Backends {
		for _, c := range clients {
			if b.Name != c.first {
				others = append(others, fmt.Sprintf("%q", b.Addr(c.vip.Addr())))
			}
		}
	}
	without := sticky("1h", "["+strings.Join(others, ", ")+"]")

	n.serve(t, without)
	for _, c := range clients {
		wantStill(t, c.open, c.first)
		if c.next = ask(t, n.Client, "tcp", c.vip.String()).Backend; c.next == c.first {
			t.Errorf("%s: a new connection went to %s, which drains", c.vip, c.first)
		}
		n.wantHeld(t, "tcp", c.vip.String(), c.next)
	}
	n.serve(t, all)
	for _, c := range clients {
		wantStill(t, c.open, c.first)
		n.wantHeld(t, "tcp", c.vip.String(), c.next)
	}
	n.serve(t, without)
	for _, c := range clients {
		wantStill(t, c.open, c.first)
		must(t, c.open.Reset())
	}
	for _, c := range clients {
		must(t, lab.Eventually(patience, func() error {
			real := netip.AddrPortFrom(n.Backend(c.first).Addr(c.vip.Addr()), lab.LinePort)
			if w := weightOf(t, n, c.vip.String(), real.String()); w != "" {
				return fmt.Errorf("%s: %s is still there, at weight %s", c.vip, real, w)
			}
			return nil
		}))
		n.wantHeld(t, "tcp", c.vip.String(), c.next)
	}
}

// wantHeld wants a client's questions to be all answered by one backend.
func (n node) wantHeld(t *testing.T, network, to, backend string) {
	t.Helper()
	for range 4 {
		if a := ask(t, n.Client, network, to); a.Backend != backend {
			t.Errorf("%s: the client was with %s and is with %s", to, backend, a.Backend)
		}
	}
}

// For the timeout, counted from its last connection on, a client is held; then
// it is one like any other.
func TestAffinityEndsAtItsTimeout(t *testing.T) {
	const timeout = 10 * time.Second
	n := newNode(t, "")
	n.start(t, sticky(timeout.String(), allPods))
	// Its connections are over before, else they would hold it.
	n.tool(t, "ipvsadm", "--set", "0", "0", "1")
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		first := ask(t, n.Client, "udp", to).Backend
		asked := timed(func() { n.wantHeld(t, "udp", to, first) })
		must(t, lab.Eventually(patience, func() error {
			// Asking the service itself would hold the client for longer.
			if conns := n.tool(t, "ipvsadm", "-Lnc"); strings.Contains(conns, "UDP") {
				return errors.New("the client is still known:\n" + conns)
			}
			return nil
		}))
		if longest, shortest := time.Since(asked.from), time.Since(asked.to); longest < timeout-late || shortest > timeout+lateIn(t)+late {
			t.Errorf("%s: the client was held for %v to %v, want %v", to, shortest, longest, timeout)
		}
		// Round robin: the first to come next is with the next backend.
		if next := ask(t, n.Client, "udp", to).Backend; next == first {
			t.Errorf("%s: after the timeout the client is with %s as before", to, next)
		}
	}
}
