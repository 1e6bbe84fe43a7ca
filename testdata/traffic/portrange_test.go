package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// Each port of a range is served by the same port of the backend, over TCP and UDP, in both families. The ports beside the
// range are refused, although the backend has them.
func TestPortRange(t *testing.T) {
	n := newNode(t, "")
	for _, port := range []int{9999, 10000, 10050, 10100, 10101} {
		_, err := n.Backends[0].OpenPort(port, func(c net.Conn) {
			bufio.NewReader(c).ReadSlice('\n')
			fmt.Fprintf(c, "port-%d %s\n", port, c.RemoteAddr())
		})
		must(t, err)
		_, err = n.Backends[0].OpenDatagrams(port, func([]byte) []byte { return fmt.Appendf(nil, "port-%d 192.0.2.2:1\n", port) })
		must(t, err)
	}
	n.start(t, `
[services.ranged]
clusterIPs = ["10.96.0.20", "fd00:96::20"]
ports = ["10000-10100", { port = "10000-10100", protocol = "UDP" }]
endpoints = ["10.2.1.10", "fd00:2:1::10"]
`)
	for _, vip := range []string{"10.96.0.20", "fd00:96::20"} {
		for _, network := range []string{"tcp", "udp"} {
			for _, port := range []uint16{10000, 10050, 10100} {
				to := netip.AddrPortFrom(netip.MustParseAddr(vip), port)
				if a := ask(t, n.Client, network, to.String()); a.Backend != fmt.Sprintf("port-%d", port) {
					t.Errorf("%s over %s: %s answers", to, network, a.Backend)
				}
			}
		}
		for _, port := range []uint16{9999, 10101} {
			if err := connect(n.Client, vip, port); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("port %d of %s: want refused, got %v", port, vip, err)
			}
		}
	}
	n.healthy(t)
}
