package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// The weights are heeded by a service's own scheduler; the others keep theirs.
func TestWeightsDivideConnections(t *testing.T) {
	const connections = 1000
	n := newNode(t, "")
	weighted := `[
		{ address = "10.2.1.10", weight = 1 },
		{ address = "10.2.2.10", weight = 3 },
		{ address = "10.2.3.10", weight = 6 },
	]
`
	// wrr is the default.
	n.start(t, clusterIP("web", "10.96.0.20", weighted)+clusterIP("even", "10.96.0.21", weighted)+"scheduler = \"rr\"\n")
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
	n.healthy(t)
	who := map[string]int{}
	for range connections {
		who[ask(t, n.Client, "tcp", "10.96.0.20:80").Backend]++
		if t.Failed() {
			return
		}
	}
	for name, share := range map[string]float64{"pod1": 0.1, "pod2": 0.3, "pod3": 0.6} {
		want := share * connections
		slack := slack(t, want, share, 0.05*want)
		if math.Abs(float64(who[name])-want) > slack {
			t.Errorf("%s answered %d of %d, want %v within %.0f", name, who[name], connections, want, slack)
		}
	}
}

// A virtual server with rr, as earlier versions and kube-proxy left it, keeps rr until weights differ: a change of the
// scheduler refuses connections for a moment.
func TestRoundRobinStaysUntilWeightsDiffer(t *testing.T) {
	n := newNode(t, "")
	if n.Mode != "ipvs" {
		t.Skip("only IPVS keeps virtual servers")
	}
	n.start(t, clusterIP("web", "10.96.0.20", allV4)+"scheduler = \"rr\"\n")
	scheduler := func(want string) {
		t.Helper()
		if is := n.tool(t, "ipvsadm", "-Sn"); !strings.Contains(is, "-s "+want+"\n") {
			t.Errorf("want scheduler %s:\n%s", want, is)
		}
	}
	must(t, n.Serve(clusterIP("web", "10.96.0.20", allV4)))
	n.says(t, 0, "reload --wait")
	scheduler("rr")
	n.order(t, 0, "plan --detailed-exitcode", "nothing to do")
	n.order(t, 0, "drain web/10.2.1.10")
	scheduler("rr")
	n.order(t, 0, "undrain web/10.2.1.10")
	n.order(t, 0, "weight web/10.2.1.10 3")
	scheduler("wrr")
	who := map[string]int{}
	for range 10 {
		who[ask(t, n.Client, "tcp", "10.96.0.20:80").Backend]++
	}
	if who["pod1"] != 6 || who["pod2"] != 2 || who["pod3"] != 2 {
		t.Errorf("of ten connections by weights 3, 1 and 1 the backends got %v", who)
	}
}

func TestClientAffinityHoldsAClientToABackend(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", allV4)+"sessionAffinity = \"ClientIP\"\n"+
		clusterIP("other", "10.96.0.21", allV4))
	used := map[string]bool{}
	for i := range 6 {
		from := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
		must(t, n.Client.IP(fmt.Sprintf("addr add %s/32 dev eth0", from)))
		first := askFrom(t, n.Client, from, "10.96.0.20:80")
		used[first] = true
		for range 5 {
			if again := askFrom(t, n.Client, from, "10.96.0.20:80"); again != first {
				t.Errorf("client %s was with %s, is with %s", from, first, again)
			}
		}
	}
	if len(used) < 2 {
		t.Errorf("six clients are all with %v", used)
	}
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
}

const allV4 = `["10.2.1.10", "10.2.2.10", "10.2.3.10"]`

func askFrom(t *testing.T, h *lab.Host, from netip.Addr, to string) string {
	t.Helper()
	c, err := h.DialFrom("tcp", from, netip.MustParseAddrPort(to))
	must(t, err)
	defer c.Close()
	a, err := c.Ask()
	must(t, err)
	return a.Backend
}

// A client may have one port in connections to two VIPs. If they reach one endpoint, IPVS sends the answers of both to the
// newer one. The other modes do not.
func TestOneClientPortToTwoVIPs(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("older", "10.96.0.21", `["10.2.1.10"]`)+clusterIP("newer", "10.96.0.22", `["10.2.1.10"]`))
	older, newer := n.dialFromPort(t, 20000, "10.96.0.21:80"), n.dialFromPort(t, 20000, "10.96.0.22:80")
	if err := echo(newer, lab.AskLimit); err != nil {
		t.Errorf("the newer connection: %v", err)
	}
	limit := lab.AskLimit
	if modeOf(t) == "ipvs" {
		limit = 3 * time.Second
	}
	err := echo(older, limit)
	if starves := errors.Is(err, os.ErrDeadlineExceeded); starves != (modeOf(t) == "ipvs") {
		t.Errorf("the older connection: %v", err)
	}
}

// dialFromPort connects the client from a port that it may use already.
func (n node) dialFromPort(t *testing.T, port int, to string) (c net.Conn) {
	t.Helper()
	dialer := net.Dialer{
		Timeout:   patience,
		LocalAddr: &net.TCPAddr{Port: port},
		Control: func(_, _ string, socket syscall.RawConn) error {
			return socket.Control(func(fd uintptr) { must(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)) })
		},
	}
	must(t, n.Client.Do(func() (err error) { c, err = dialer.Dial("tcp", to); return err }))
	t.Cleanup(func() { c.Close() })
	return c
}

// echo has a backend answer a line.
func echo(c net.Conn, limit time.Duration) error {
	c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte("\n")); err != nil {
		return err
	}
	_, err := bufio.NewReader(c).ReadString('\n')
	return err
}
