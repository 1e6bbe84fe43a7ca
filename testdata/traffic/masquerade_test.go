package traffic

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// Whom a backend may see asking.
const (
	theAsker = "the asker" // its own address
	theNode  = "the node"  // masqueraded: the node's address on the link to the backend
	theVIP   = "the VIP"   // what the node itself asked, which is its own address and so its packet's source
)

// bothPolicies are two services alike but for their traffic policies. pod1 is on
// this node, pod2 on another.
const bothPolicies = `
[services.cluster]
type = "LoadBalancer"
clusterIPs = ["10.96.0.20", "fd00:96::20"]
externalIPs = ["203.0.113.20", "2001:db8:9::20"]
loadBalancerIPs = ["198.51.100.20", "2001:db8:80::20"]
ports = [{ port = 80, targetPort = 7000, nodePort = 30020 }]
endpoints = ` + hereAndThere + `
[services.local]
type = "LoadBalancer"
clusterIPs = ["10.96.0.21", "fd00:96::21"]
externalIPs = ["203.0.113.21", "2001:db8:9::21"]
loadBalancerIPs = ["198.51.100.21", "2001:db8:80::21"]
ports = [{ port = 80, targetPort = 7000, nodePort = 30021 }]
externalTrafficPolicy = "Local"
internalTrafficPolicy = "Local"
endpoints = ` + hereAndThere

const hereAndThere = `[
	{ address = "10.2.1.10", nodeName = "n1" }, { address = "10.2.2.10", nodeName = "n2" },
	{ address = "fd00:2:1::10", nodeName = "n1" }, { address = "fd00:2:2::10", nodeName = "n2" },
]
`

// Addresses of the two services: the last digit is the policy's.
var (
	clusterIPs = []string{"10.96.0.2#:80", "[fd00:96::2#]:80"}
	outerIPs   = []string{
		"198.51.100.2#:80", "[2001:db8:80::2#]:80", // load balancer
		"203.0.113.2#:80", "[2001:db8:9::2#]:80", // external
		"192.0.2.1:3002#", "[2001:db8::1]:3002#", // node port
		"10.2.3.1:3002#", // the same, at another address of the node
	}
	policyDigit = map[string]string{"Cluster": "0", "Local": "1"}
)

// Which backends answer and whom they see decides whether their replies come back
// through the node, and what they can log. A backend that is balanced to itself
// sees the node whatever the row says.
func TestWhomTheBackendSees(t *testing.T) {
	n := newNode(t, "")
	must(t, n.Serve(bothPolicies))
	hosts := map[string][]*lab.Host{
		"client":  {n.Client},
		"node":    {n.Lab.Node},
		"backend": {n.Backend("pod1").Host, n.Backend("pod3").Host},
	}
	for _, config := range []struct {
		name, main string
		brief      bool // only the rows that the configuration makes a difference to
	}{
		{"no detector", "", false},
		{"clusterCIDR", `clusterCIDR = "10.2.0.0/16,fd00:2::/32"`, false},
		{"interface prefix", "detectLocalMode = \"InterfaceNamePrefix\"\ndetectLocal.interfaceNamePrefix = \"pod\"", true},
		{"masqueradeAll", "iptables.masqueradeAll = true", true},
	} {
		mark := n.Log.Len()
		n.restart(t, "hostnameOverride = \"n1\"\n"+config.main)
		n.synced(t, mark)
		for _, c := range []struct {
			from, policy   string
			to             []string
			no, local, all string // without detector; with one, of either kind; with masqueradeAll
		}{
			{"client", "Cluster", clusterIPs, theAsker, theNode, theNode},
			{"client", "Local", clusterIPs, theAsker, theNode, theNode},
			{"backend", "Cluster", clusterIPs, theAsker, theAsker, theNode},
			{"backend", "Local", clusterIPs, theAsker, theAsker, theNode},
			{"node", "Cluster", clusterIPs, theNode, theNode, theNode},
			{"node", "Local", clusterIPs, theNode, theNode, theNode},
			{"client", "Cluster", outerIPs, theNode, theNode, theNode},
			{"client", "Local", outerIPs, theAsker, theAsker, theAsker},
			{"backend", "Cluster", outerIPs, theNode, theNode, theNode},
			{"backend", "Local", outerIPs, theAsker, theAsker, theAsker},
			{"node", "Cluster", outerIPs, theNode, theNode, theNode},
			{"node", "Local", outerIPs, theVIP, theVIP, theVIP},
		} {
			want := map[string]string{"no detector": c.no, "masqueradeAll": c.all}[config.name]
			if want == "" {
				want = c.local
			}
			if c.no == c.all && config.brief {
				continue
			}
			for _, from := range hosts[c.from] {
				for _, to := range c.to {
					to := netip.MustParseAddrPort(strings.ReplaceAll(to, "#", policyDigit[c.policy]))
					if who := wantSeen(t, config.name, from, to, want); who != answering[c.policy] {
						t.Errorf("%s: %s asks %s: answered by %q, want %q", config.name, from.Name, to, who, answering[c.policy])
					}
				}
			}
		}
	}
}

// answering are who answers two questions in turn.
var answering = map[string]string{"Cluster": "pod1 pod2", "Local": "pod1 pod1"}

// wantSeen asks twice, wants each backend to see the right address, and says who
// answered.
func wantSeen(t *testing.T, config string, from *lab.Host, to netip.AddrPort, whom string) string {
	t.Helper()
	var who []string
	for range 2 {
		a := ask(t, from, "tcp", to.String())
		whom := whom
		if a.Backend == from.Name {
			whom = theNode
		}
		want := map[string]netip.Addr{theAsker: from.Addr(to.Addr()), theVIP: to.Addr(), theNode: linkTo(a.Backend, to.Addr())}[whom]
		if a.Client.Addr() != want {
			t.Errorf("%s: %s asks %s: %s sees %s, want %s, %s", config, from.Name, to, a.Backend, a.Client.Addr(), whom, want)
		}
		who = append(who, a.Backend)
	}
	slices.Sort(who)
	return strings.Join(who, " ")
}

// linkTo is the node's address on its link to a backend.
func linkTo(backend string, like netip.Addr) netip.Addr {
	number := strings.TrimPrefix(backend, "pod")
	if like.Is4() {
		return netip.MustParseAddr("10.2." + number + ".1")
	}
	return netip.MustParseAddr("fd00:2:" + number + "::1")
}
