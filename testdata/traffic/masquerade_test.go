package traffic

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Whom the backend sees is what decides whether its replies come back through
// the node, and what it can log.
func TestWhomTheBackendSees(t *testing.T) {
	n := newNode(t, "")
	const (
		client = "the client"
		node   = "the node"
	)
	// The only endpoint is in pod1, so that every case has one answer.
	services := `
[services.web]
type = "LoadBalancer"
clusterIPs = ["10.96.0.20", "fd00:96::20"]
externalIPs = ["203.0.113.9", "2001:db8:9::9"]
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
ports = [{ port = 80, targetPort = 7000, nodePort = 30080 }]
endpoints = ["10.2.1.10", "fd00:2:1::10"]
`
	must(t, n.Serve(services))
	for _, config := range []struct {
		name, main             string
		fromHost, fromPod      string // to the cluster IP
		fromOutside, fromLocal string // to the others
	}{
		{"neither", "", client, client, node, node},
		{"clusterCIDR", `clusterCIDR = "10.2.0.0/16,fd00:2::/32"`, node, client, node, node},
		{"masqueradeAll", "iptables.masqueradeAll = true", node, node, node, node},
	} {
		mark := n.Log.Len()
		n.restart(t, config.main)
		n.synced(t, mark)
		pod2 := n.Backend("pod2").Host
		for _, c := range []struct {
			from   *lab.Host
			v4, v6 string
			want   string
		}{
			{n.Client, "10.96.0.20:80", "[fd00:96::20]:80", config.fromHost},
			{pod2, "10.96.0.20:80", "[fd00:96::20]:80", config.fromPod},
			{n.Client, "203.0.113.9:80", "[2001:db8:9::9]:80", config.fromOutside},
			{n.Client, "198.51.100.80:80", "[2001:db8:80::80]:80", config.fromOutside},
			{n.Client, "192.0.2.1:30080", "[2001:db8::1]:30080", config.fromOutside},
			{pod2, "198.51.100.80:80", "[2001:db8:80::80]:80", config.fromLocal},
			{pod2, "192.0.2.1:30080", "[2001:db8::1]:30080", config.fromLocal},
			{n.Backend("pod1").Host, "10.96.0.20:80", "[fd00:96::20]:80", node}, // hairpin
			{n.Lab.Node, "10.96.0.20:80", "[fd00:96::20]:80", node},
		} {
			for _, to := range []string{c.v4, c.v6} {
				a := ask(t, c.from, "tcp", to)
				want := c.from.Addr(netip.MustParseAddrPort(to).Addr())
				if c.want == node {
					want = netip.MustParseAddr("10.2.1.1")
					if a.Client.Addr().Is6() {
						want = netip.MustParseAddr("fd00:2:1::1")
					}
				}
				if a.Client.Addr() != want {
					t.Errorf("%s: %s asks %s: pod1 sees %s, want %s, %s", config.name, c.from.Name, to, a.Client.Addr(), c.want, want)
				}
			}
		}
	}
}
