package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// TestPortsOfMasqueradedClients: a backend that closes first keeps the ports of a connection for a minute. From the
// same ports it takes a SYN only if that is newer than what it has seen, so a node that masquerades must not give
// it a port that another port of the client had. A client that uses its ports again sends each SYN once, alone or
// eight times at once, and its 20,000th connection takes as long as its first.
func TestPortsOfMasqueradedClients(t *testing.T) {
	const port = 7100
	n := newNode(t, "")
	// Mode userspace leaves forwarding off.
	must(t, n.Lab.Node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	_, err := n.Backend("pod1").OpenPort(port, func(net.Conn) {}) // closes at once
	must(t, err)
	n.start(t, fmt.Sprintf("[services.web]\nvips = [\"198.51.100.80\"]\nports = [{ port = 80, targetPort = %d }]\n"+
		"endpoints = [\"10.2.1.10\"]\n", port))

	connections := 4000
	if emulated() {
		connections = 96
	}
	for _, clients := range []int{1, 8} {
		var first float64
		for round := 1; ; round++ {
			before := sentAgain(t, n.Client)
			took := n.visits(t, clients, connections/clients, port)
			if again := sentAgain(t, n.Client) - before; again > 0 {
				t.Fatalf("%d clients, round %d: %d of %d SYNs were sent again", clients, round, again, 2*connections)
			}
			t.Logf("%d clients, round %d: a connection to the VIP takes as long as %.2f to the backend", clients, round, took)
			if round == 1 {
				first = took
			}
			if round >= 5 && took < first*1.3 {
				break
			}
			if round == 10 { // a busy machine disturbs some rounds; if connections wait, all become longer
				t.Fatalf("%d clients: connections took %.2f times as long as to the backend at first, and %.2f times in the end",
					clients, first, took)
			}
		}
	}
}

// visits has clients connect to the VIP and to the backend itself, by turns and at once, each as often as said. Each
// client has ports of its own, and uses each three times. It returns how many times as long connections to the VIP took.
func (n node) visits(t *testing.T, clients, each, port int) float64 {
	t.Helper()
	const first, direct = 40000, 50000 // IPVS takes answers to a port for those of a connection to the VIP that it had
	ports := max(each/3, 1)
	vip, backend := netip.MustParseAddrPort("198.51.100.80:80"), netip.AddrPortFrom(n.Backend("pod1").V4, uint16(port))
	errs, took := make([]error, clients), make([][2]time.Duration, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for k := range 2 * each {
				to, from := vip, first+ports*i+k/2%ports
				if k%2 == 1 {
					to, from = backend, from-first+direct
				}
				begin := time.Now()
				if errs[i] = n.visit(uint16(from), to); errs[i] != nil {
					return
				}
				took[i][k%2] += time.Since(begin)
			}
		})
	}
	all.Wait()
	var sum [2]time.Duration
	for i := range clients {
		must(t, errs[i])
		sum[0] += took[i][0]
		sum[1] += took[i][1]
	}
	return float64(sum[0]) / float64(sum[1])
}

// visit connects from a port of the client, and waits until the other side closes. It leaves a port out whose last
// connection has not quite ended.
func (n node) visit(from uint16, to netip.AddrPort) error {
	dialer := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.Client.V4, from)),
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
			return err
		},
		Timeout: lab.AskLimit,
	}
	return n.Client.Do(func() error {
		c, err := dialer.DialContext(context.Background(), "tcp", to.String())
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil
		}
		if err != nil {
			return err
		}
		io.Copy(io.Discard, c)
		return c.Close()
	})
}

// sentAgain counts the SYNs that a host has sent once more, since nothing or no SYN came back.
func sentAgain(t *testing.T, h *lab.Host) (count int) {
	t.Helper()
	const counter = "TCPSynRetrans"
	var text []byte
	must(t, h.Do(func() (err error) { text, err = os.ReadFile("/proc/thread-self/net/netstat"); return err }))
	var names []string
	for line := range strings.Lines(string(text)) {
		values := strings.Fields(line)
		for i, name := range names {
			if name == counter && len(values) == len(names) && values[0] == "TcpExt:" {
				if _, err := fmt.Sscan(values[i], &count); err == nil {
					return count
				}
			}
		}
		names = values
	}
	t.Fatalf("no %s in %s", counter, text)
	return 0
}
