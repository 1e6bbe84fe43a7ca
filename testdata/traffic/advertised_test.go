package traffic

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

const ipv4Only = `
[services.web]
type = "LoadBalancer"
loadBalancerIPs = ["192.0.2.80"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ["10.2.1.10"]
`

// The first IPv6 service makes the kernel forward. It would forget the default route that it has from a router's
// advertisement then, and heed no other one.
func TestRoutesOfAdvertisementsStay(t *testing.T) {
	n := newNode(t, "")
	const forwarding, accept = "net.ipv6.conf.all.forwarding", "net.ipv6.conf.uplink.accept_ra"
	n.tool(t, "sysctl", "-qw", forwarding+"=0", accept+"=1")
	n.awaitsRoute(t)

	n.start(t, onTheLink)
	if routes := n.defaultRoutes(t); !strings.Contains(routes, "proto ra") {
		t.Errorf("with an IPv6 service the default routes are\n%s", routes)
	}
	n.tool(t, "ip", "-6", "route", "flush", "proto", "ra")
	n.serve(t, ipv4Only) // it stays after the last IPv6 service, too
	n.awaitsRoute(t)
	must(t, n.Stop())
	n.start(t, onTheLink)
	if is := n.tool(t, "sysctl", "-n", forwarding, accept); is != "1\n2\n" {
		t.Errorf("%s and %s are %q", forwarding, accept, is)
	}

	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if is := n.tool(t, "sysctl", "-n", forwarding, accept); is != "0\n1\n" {
		t.Errorf("after cleanup %s and %s are %q", forwarding, accept, is)
	}
	if routes := n.defaultRoutes(t); !strings.Contains(routes, "proto ra") {
		t.Errorf("after cleanup the default routes are\n%s", routes)
	}
}

func (n node) defaultRoutes(t *testing.T) string {
	t.Helper()
	return n.tool(t, "ip", "-6", "route", "show", "default")
}

// awaitsRoute has the client advertise itself as a router until the node has the route.
func (n node) awaitsRoute(t *testing.T) {
	t.Helper()
	must(t, lab.Eventually(30*time.Second, func() error {
		if err := n.Client.Do(advertise); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		if routes := n.defaultRoutes(t); !strings.Contains(routes, "proto ra") {
			return errors.New("the node has no default route by advertisement: " + routes)
		}
		return nil
	}))
}

// advertise sends a router advertisement (RFC 4861, 4.2) that is valid for half an hour on the client's link. The
// kernel fills in the checksum.
func advertise() error {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.SetsockoptInt(s, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		return err
	}
	if err := unix.BindToDevice(s, "eth0"); err != nil {
		return err
	}
	const typ, hops, lifetime = 134, 64, 1800
	message := []byte{typ, 0, 0, 0, hops, 0, lifetime >> 8, lifetime & 0xff, 0, 0, 0, 0, 0, 0, 0, 0}
	everyNode := &unix.SockaddrInet6{Addr: [16]byte{0: 0xff, 1: 2, 15: 1}}
	return unix.Sendto(s, message, 0, everyNode)
}
