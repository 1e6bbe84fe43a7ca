package traffic

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Each kind of address takes TCP and UDP of both families to a backend: from
// another host, from the node itself, and from a backend, which can reach itself
// (hairpin).
func TestEveryKindOfAddressReachesEveryBackend(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	for _, kind := range []struct{ name, v4, v6 string }{
		{"cluster IP", "10.96.0.20:80", "[fd00:96::20]:80"},
		{"external IP", "203.0.113.9:80", "[2001:db8:9::9]:80"},
		{"load balancer IP", "198.51.100.80:80", "[2001:db8:80::80]:80"},
		{"node port", "192.0.2.1:30080", "[2001:db8::1]:30080"},
		{"node port on another address", "10.2.1.1:30080", "[fd00:2:1::1]:30080"},
	} {
		for _, from := range []*lab.Host{n.Client, n.Lab.Node, n.Backends[0].Host} {
			t.Run(kind.name+" from "+from.Name, func(t *testing.T) {
				for _, to := range []string{kind.v4, kind.v6} {
					for _, network := range []string{"tcp", "udp"} {
						wantEach(t, from, network, to)
					}
				}
			})
		}
	}
	n.healthy(t)
}

// wantEach wants one answer from each backend: the scheduler is rr. Where the choice is
// random it asks until each has answered.
func wantEach(t *testing.T, from *lab.Host, network, to string) {
	t.Helper()
	who, asked := map[string]int{}, 3
	if !balances(t) {
		asked = 200 // one may have a tenth of the weight: it is not chosen in 200 questions once in 10^9 times
	}
	for i := 0; i < asked && (i < 3 || len(who) < 3); i++ {
		a, err := from.Ask(network, netip.MustParseAddrPort(to))
		if err != nil {
			t.Errorf("%s %s: %v", network, to, err)
			return
		}
		who[a.Backend]++
	}
	if len(who) != 3 {
		t.Errorf("%s %s: %d questions in turn were answered by %v", network, to, asked, who)
	}
}

// A VIP is an address of the node's, yet only its service is to be had there.
func TestHostPortsAreRefusedOnVIPs(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	sshd, err := n.Lab.Node.Listen(2222)
	must(t, err)
	defer sshd.Close()
	for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
		if err := connect(n.Client, addr, 2222); err != nil {
			t.Errorf("the node's own %s: %v", addr, err)
		}
	}
	for _, vip := range []string{"10.96.0.20", "203.0.113.9", "198.51.100.80", "fd00:96::20", "2001:db8:9::9", "2001:db8:80::80"} {
		if err := connect(n.Client, vip, 2222); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("port 2222 of %s: want refused, got %v", vip, err)
		}
		if err := connect(n.Client, vip, 80); err != nil {
			t.Errorf("port 80 of %s: %v", vip, err)
		}
	}
}

func TestPingOfVIPs(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	vips := []string{"10.96.0.20", "198.51.100.80", "fd00:96::20"}
	for _, vip := range vips {
		if err := n.Client.Ping(netip.MustParseAddr(vip)); err != nil {
			t.Error(err)
		}
	}
	mark := n.Log.Len()
	n.restart(t, "ipvs.vipPing = false")
	n.synced(t, mark)
	for _, vip := range vips {
		if err := n.Client.Ping(netip.MustParseAddr(vip)); err == nil {
			t.Errorf("with vipPing = false %s still answers", vip)
		}
	}
	if err := n.Client.Ping(n.Lab.Node.V4); err != nil {
		t.Errorf("the node itself: %v", err)
	}
	ask(t, n.Client, "tcp", "10.96.0.20:80")
}

// A service without endpoints refuses clients at once.
func TestServiceWithoutEndpointsRefuses(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("empty", "10.96.0.30", "[]"))
	wantFrom(t, n.Client, "10.96.0.30:80", "")
	n.healthy(t)
}

func connect(from *lab.Host, addr string, port uint16) error {
	return from.Connect(netip.AddrPortFrom(netip.MustParseAddr(addr), port))
}
