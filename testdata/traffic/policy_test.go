package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// thisNode names the lab's node.
const thisNode = "hostnameOverride = \"n1\"\nnode.zone = \"a\"\n"

// wantFrom wants exactly these backends to answer questions in turn; none means
// that connections are refused.
func wantFrom(t *testing.T, from *lab.Host, to string, pods string) {
	t.Helper()
	if pods == "" && modeOf(t) == "userspace" { // which has accepted a connection before it looks for an endpoint
		if a, err := from.Ask("tcp", netip.MustParseAddrPort(to)); err == nil {
			t.Errorf("%s asks %s: want no answer, got that of %s", from.Name, to, a.Backend)
		}
		return
	}
	if pods == "" {
		if err := from.Connect(netip.MustParseAddrPort(to)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s asks %s: want refused, got %v", from.Name, to, err)
		}
		return
	}
	want := strings.Fields(pods)
	var who []string
	for i := range tries(t, 3*len(want)) { // any that should not answer would
		if i >= 3*len(want) && slices.Equal(who, want) {
			break
		}
		who = append(who, ask(t, from, "tcp", to).Backend)
		slices.Sort(who)
		who = slices.Compact(who)
	}
	if !slices.Equal(who, want) {
		t.Errorf("%s asks %s: answered by %s, want %s", from.Name, to, who, want)
	}
}

// wantClosed wants no connection. It is refused if there are no endpoints at all; in mode
// iptables, as with kube-proxy, packets are dropped if there are some elsewhere.
func wantClosed(t *testing.T, from *lab.Host, to string, none bool) {
	t.Helper()
	if !ruled(t) || none {
		wantFrom(t, from, to, "")
		return
	}
	if err := from.Try(netip.Addr{}, netip.MustParseAddrPort(to), 500*time.Millisecond); !errors.Is(err, lab.ErrSilence) {
		t.Errorf("%s asks %s: want silence, got %v", from.Name, to, err)
	}
}

// The endpoints' conditions, node names and zones decide which answer: at the
// cluster IP all of them, at an external IP with policy Local those of this node.
func TestEndpointConditionsAndPlaces(t *testing.T) {
	n := newNode(t, thisNode)
	rows := []struct{ name, extra, endpoints, cluster, local string }{
		{"not-ready", "", `["10.2.1.10", { address = "10.2.2.10", ready = false }]`, "pod1", ""},
		{"terminating-beside-a-ready", "", `["10.2.1.10", { address = "10.2.2.10", ready = false, serving = true, terminating = true }]`, "pod1", ""},
		{"all-terminating", "", `[{ address = "10.2.1.10", ready = false, serving = true, terminating = true },
			{ address = "10.2.2.10", ready = false, serving = false, terminating = true },
			{ address = "10.2.3.10", ready = false, serving = true }]`, "pod1", ""},
		{"none-serves", "", `[{ address = "10.2.1.10", ready = false, serving = false, terminating = true }, { address = "10.2.2.10", ready = false }]`, "", ""},
		{"decided-apart", "", `[{ address = "10.2.1.10", nodeName = "n1", ready = false, serving = true, terminating = true },
			{ address = "10.2.2.10", nodeName = "n2" }]`, "pod2", "pod1"},
		{"published", "publishNotReadyAddresses = true", `["10.2.1.10", { address = "10.2.2.10", nodeName = "n1", ready = false }]`, "pod1 pod2", "pod2"},
		{"this-node", `trafficDistribution = "PreferSameNode"`, `[{ address = "10.2.1.10", nodeName = "n1", zone = "a" },
			{ address = "10.2.2.10", nodeName = "n2", zone = "a" }, { address = "10.2.3.10", nodeName = "n3", zone = "b" }]`, "pod1", "pod1"},
		{"not-this-node", `trafficDistribution = "PreferSameNode"`, `[{ address = "10.2.2.10", nodeName = "n2", zone = "a" },
			{ address = "10.2.3.10", nodeName = "n3", zone = "b" }]`, "pod2", ""},
		{"this-zone", `trafficDistribution = "PreferSameZone"`, `[{ address = "10.2.1.10", nodeName = "n1", zone = "a" },
			{ address = "10.2.2.10", nodeName = "n2", zone = "a" }, { address = "10.2.3.10", nodeName = "n3", zone = "b" }]`, "pod1 pod2", "pod1"},
		{"not-this-zone", `trafficDistribution = "PreferSameZone"`, `[{ address = "10.2.2.10", nodeName = "n2", zone = "b" },
			{ address = "10.2.3.10", nodeName = "n3", zone = "c" }]`, "pod2 pod3", ""},
		{"one-without-zone", `trafficDistribution = "PreferSameZone"`, `[{ address = "10.2.1.10", nodeName = "n1", zone = "a" },
			{ address = "10.2.2.10", nodeName = "n2" }]`, "pod1 pod2", "pod1"},
		{"this-zone-paused", `trafficDistribution = "PreferSameZone"`, `[{ address = "10.2.1.10", nodeName = "n2", zone = "a", weight = 0 },
			{ address = "10.2.2.10", nodeName = "n2", zone = "b" }]`, "pod2", ""},
		{"weight-zero", "", `[{ address = "10.2.1.10", weight = 0 }, "10.2.2.10"]`, "pod2", ""},
	}
	var table strings.Builder
	for i, r := range rows {
		table.WriteString(clusterIP(r.name, fmt.Sprintf("10.96.1.%d", i), r.endpoints))
		fmt.Fprintf(&table, "externalIPs = [\"203.0.113.%d\"]\nexternalTrafficPolicy = \"Local\"\n%s\n", i, r.extra)
	}
	n.start(t, table.String())
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			wantFrom(t, n.Client, fmt.Sprintf("10.96.1.%d:80", i), r.cluster)
			if to := fmt.Sprintf("203.0.113.%d:80", i); r.local == "" {
				wantClosed(t, n.Client, to, r.cluster == "")
			} else {
				wantFrom(t, n.Client, to, r.local)
			}
		})
	}
}

// An endpoint's port is found by the name of the service's port, else it is the
// targetPort: there is no listener on port 1.
func TestPortsAreFoundByName(t *testing.T) {
	n := newNode(t, "")
	n.start(t, `
[services.web]
clusterIP = "10.96.0.20"
ports = [
  { name = "line", port = 80, targetPort = 7000 },
  { name = "datagram", port = 80, targetPort = 1, protocol = "UDP" },
  { name = "own", port = 81, targetPort = 1 },
]
endpoints = [
  { address = "10.2.1.10", ports = { datagram = 7000, own = 7000 } },
  { address = "10.2.2.10", ports = { own = 7000, datagram = 7000 } },
  { address = "10.2.3.10", ports = { datagram = 7000 } },
]
`)
	wantFrom(t, n.Client, "10.96.0.20:80", "pod1 pod2 pod3")
	wantEach(t, n.Client, "udp", "10.96.0.20:80")
	n.healthy(t)
	refused, asked := 0, tries(t, 3)
	for range asked {
		if _, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:81")); err != nil {
			refused++
		}
	}
	switch {
	case modeOf(t) == "userspace" && refused == 0: // it tries the next endpoint
	case refused == 0 || refused == asked || balances(t) && refused != 1:
		t.Errorf("of %d connections in turn %d were refused, want those of the one endpoint without a port of the name", asked, refused)
	}
}

// If policy Local finds no local endpoint, clients are refused at once, in mode iptables
// not answered, or all are served, as localFallback has it. Without node names, localCIDRs say what is
// local.
func TestLocalWithoutALocalEndpoint(t *testing.T) {
	n := newNode(t, thisNode)
	policies := "externalIPs = [\"203.0.113.9\"]\nexternalTrafficPolicy = \"Local\"\ninternalTrafficPolicy = \"Local\"\n"
	n.start(t, clusterIP("away", "10.96.0.20", `[{ address = "10.2.2.10", nodeName = "n2" }, "10.2.3.10"]`)+policies)
	vips := []string{"10.96.0.20:80", "203.0.113.9:80"}
	for _, c := range []struct {
		name, main string
		pods       [2]string // of each VIP: what is internal has no fallback
	}{
		{"drop", thisNode, [2]string{}},
		{"cluster", thisNode + `ipvs.localFallback = "cluster"`, [2]string{"", "pod2 pod3"}},
		{"localCIDRs", thisNode + `node.localCIDRs = ["10.2.3.0/24"]`, [2]string{"pod3", "pod3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.main != thisNode {
				mark := n.Log.Len()
				n.restart(t, c.main)
				n.synced(t, mark)
			}
			for i, vip := range vips {
				if c.pods[i] == "" {
					wantClosed(t, n.Client, vip, false)
				} else {
					wantFrom(t, n.Client, vip, c.pods[i])
				}
			}
			if c.pods[1] == "" {
				return
			}
			if a := ask(t, n.Client, "tcp", "203.0.113.9:80"); a.Client.Addr() != n.Client.V4 {
				t.Errorf("%s sees %s, want the client", a.Backend, a.Client)
			}
		})
	}
}

// Services that other programs implement change nothing in the kernel, also
// next to one of ours.
func TestWhatIsNotServed(t *testing.T) {
	n := newNode(t, "")
	ours := clusterIP("web", "10.96.0.20", allV4)
	n.start(t, ours)
	without := n.read(t)
	n.serve(t, ours+clusterIP("seen", "10.96.0.21", allV4)+`
[services.headless]
type = "Headless"
ports = [{ port = 80 }]
endpoints = ["10.2.1.10"]
[services.elsewhere]
type = "ExternalName"
[services.proxied]
type = "LoadBalancer"
loadBalancerIPs = [{ ip = "198.51.100.81", ipMode = "Proxy" }]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ["10.2.1.10"]
`)
	// A socket that is locked when the ICMP message comes sends again: then the client waits in vain.
	if err := connect(n.Client, "198.51.100.81", 80); !errors.Is(err, unix.EHOSTUNREACH) && !os.IsTimeout(err) {
		t.Errorf("a load balancer IP of ipMode Proxy: want no way there, got %v", err)
	}
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")
	n.serve(t, ours+"[services.headless]\ntype = \"Headless\"\n[services.elsewhere]\ntype = \"ExternalName\"\n")
	n.healed(t, without)
}

// An external IP that is the node's own is served there and stays the node's, with
// all its other ports, whatever becomes of the service.
func TestExternalIPOfTheNodeIsNeitherBoundNorUnbound(t *testing.T) {
	n := newNode(t, thisNode)
	sshd, err := n.Lab.Node.Listen(2222)
	must(t, err)
	defer sshd.Close()
	other := clusterIP("other", "10.96.0.21", allV4)
	n.start(t, other)
	before := n.read(t)
	whole := func(when string) {
		t.Helper()
		addrs := n.read(t).Addrs
		for _, addr := range []string{"192.0.2.1", "2001:db8::1"} {
			if err := connect(n.Client, addr, 2222); err != nil {
				t.Errorf("%s: the node's own port: %v", when, err)
			}
			if at := slices.IndexFunc(addrs, func(l string) bool { return strings.HasPrefix(l, "kube-ipvs0 "+addr+"/") }); at >= 0 {
				t.Errorf("%s: bound: %s", when, addrs[at])
			}
		}
	}
	web := `
[services.web]
externalIPs = ["192.0.2.1", "2001:db8::1"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allPods
	n.serve(t, other+web)
	whole("served")
	for _, to := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		for _, from := range []*lab.Host{n.Client, n.Lab.Node, n.Backends[0].Host} {
			wantFrom(t, from, to, "pod1 pod2 pod3")
		}
	}
	n.serve(t, other)
	whole("no longer served")
	n.healed(t, before)

	n.serve(t, other+web)
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	whole("cleaned up")
}
