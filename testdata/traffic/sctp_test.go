package traffic

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// signalling is a service of SCTP with every kind of address.
func signalling(endpoints string) string {
	return `
[services.signalling]
type = "LoadBalancer"
clusterIPs = ["10.96.0.20", "fd00:96::20"]
externalIPs = ["203.0.113.9"]
loadBalancerIPs = ["198.51.100.80"]
ports = [{ port = 3868, targetPort = 7000, nodePort = 30868, protocol = "SCTP" }]
endpoints = ` + endpoints + "\n"
}

func serveSCTP(t *testing.T, b *lab.Backend) {
	t.Helper()
	err := b.ServeSCTP()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip(err)
	}
	must(t, err)
}

func TestSCTPIsBalanced(t *testing.T) {
	n := newNode(t, "")
	for _, b := range n.Backends {
		serveSCTP(t, b)
	}
	n.start(t, signalling(allPods))
	for _, to := range []string{"10.96.0.20:3868", "[fd00:96::20]:3868", "203.0.113.9:3868", "198.51.100.80:3868", "192.0.2.1:30868", "10.2.1.1:30868"} {
		who := map[string]bool{}
		for i := 0; i < tries(t, 3) && len(who) < 3; i++ {
			c, err := n.Client.DialSCTP(netip.MustParseAddrPort(to))
			if err != nil {
				t.Error(err)
				continue
			}
			a, err := c.Ask()
			if err != nil {
				t.Errorf("asking %s: %v", to, err)
			}
			c.Close()
			who[a.Backend] = true
		}
		if len(who) != 3 {
			t.Errorf("%s: questions in turn were answered by %v", to, who)
		}
	}
	n.healthy(t)
}

// An association has no drain: its real server is deleted with its endpoint.
func TestRemovedSCTPEndpointIsGoneAtOnce(t *testing.T) {
	n := newNode(t, "")
	serveSCTP(t, n.Backends[0])
	n.start(t, signalling(`["10.2.1.10"]`))
	c, err := n.Client.DialSCTP(netip.MustParseAddrPort("10.96.0.20:3868"))
	must(t, err)
	defer c.Close()
	wantStill(t, c, "pod1")
	n.serve(t, signalling(`["10.2.2.10"]`))
	if w := n.weight(t, "sctp", "10.96.0.20:3868", "10.2.1.10:7000"); w != "" {
		t.Errorf("10.2.1.10 is still there, at weight %s", w)
	}
}
