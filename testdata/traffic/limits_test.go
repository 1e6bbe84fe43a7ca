package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// stands waits for a condition of a kind, or for its end.
func (n node) stands(t *testing.T, kind string, wanted bool) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		st, err := n.readStatus()
		if err != nil {
			return err
		}
		for _, c := range st.Conditions {
			if c.Kind == kind {
				if wanted {
					return nil
				}
				return fmt.Errorf("still stands: %+v", c)
			}
		}
		if wanted {
			return fmt.Errorf("%s is not among %+v", kind, st.Conditions)
		}
		return nil
	}))
}

// A kernel that drops new connections because they cannot be entered, or because the table is full, is said until it has
// room again.
func TestConntrackDropsAreSaid(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	n.stands(t, "conntrackFull", false)

	t.Run("no port", func(t *testing.T) {
		n.tool(t, "sysctl", "-qw", "net.ipv4.ip_forward=1") // mode userspace does not set it
		rule := func(how string) {
			words := how + " POSTROUTING -t nat -p tcp -d 10.2.1.10 --dport 7000 -j MASQUERADE --to-ports 40000"
			n.tool(t, "iptables", strings.Fields(words)...)
		}
		rule("-I")
		to := netip.MustParseAddrPort("10.2.1.10:7000")
		first, err := n.Client.Dial("tcp", to) // has the only port
		must(t, err)
		defer first.Close()
		stop := make(chan struct{})
		for range 30 {
			go n.knock(to, stop)
		}
		n.stands(t, "conntrackFull", true)
		n.says(t, 7, "status", "dropped packets")
		close(stop)
		rule("-D")
		n.stands(t, "conntrackFull", false)
		n.says(t, 0, "events", "condition ", "conditionOver", "could not be entered")
	})
	t.Run("full", func(t *testing.T) {
		inGuest(t, "lowers the limit of all network namespaces")
		limit := conntrackMax(t, "")
		defer conntrackMax(t, limit)
		conntrackMax(t, "2")
		n.stands(t, "conntrackFull", true)
		n.says(t, 7, "status", "nearly full")
		conntrackMax(t, limit)
		n.stands(t, "conntrackFull", false)
	})
}

// knock tries to connect until stop is closed.
func (n node) knock(to netip.AddrPort, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if c, err := n.Client.Dial("tcp", to); err == nil {
			c.Close()
		}
	}
}

// A relay without file descriptors says so. Clients wait and are served when there are some again.
func TestRelayWithoutFilesIsSaid(t *testing.T) {
	n := newRelayNode(t, modeUserspace)
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	to := netip.MustParseAddrPort("10.96.0.20:80")
	wantEach(t, n.Client, "tcp", to.String())
	mark := n.Log.Len()
	var usual unix.Rlimit
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, nil, &usual))
	must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Max: usual.Max}, nil))
	restore := func() { must(t, unix.Prlimit(n.Pid(), unix.RLIMIT_NOFILE, &usual, nil)) }
	defer restore()
	var waiting []*lab.Conn
	for range 5 {
		c, err := n.Client.Dial("tcp", to) // the kernel connects it
		must(t, err)
		defer c.Close()
		waiting = append(waiting, c)
	}
	if _, err := n.Wait(mark, `file descriptors: .*has none left`); err != nil {
		t.Error(err)
	}
	restore()
	for i, c := range waiting {
		must(t, c.SetDeadline(time.Now().Add(patience)))
		if _, err := c.Ask(); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
	}
	n.stands(t, "relayFull", false)
	n.says(t, 0, "status")
	n.says(t, 0, "events", "condition ", "conditionOver", "has none left")
}
