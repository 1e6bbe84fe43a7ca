package traffic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// linkVIPs are inside the network that the client and the node are connected to.
var linkVIPs = []string{"192.0.2.80", "2001:db8::80"}

const onTheLink = `
[services.web]
type = "LoadBalancer"
loadBalancerIPs = ["192.0.2.80", "2001:db8::80"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allPods + "\n"

// take gives the client the VIPs, as another host that has them, or takes them away.
func (n node) take(t *testing.T, verb string) {
	t.Helper()
	must(t, n.Client.IP("addr "+verb+" 192.0.2.80/32 dev eth0", "addr "+verb+" 2001:db8::80/128 dev eth0"+map[string]string{"add": " nodad"}[verb]))
}

// holds says how many of the VIPs are bound.
func (n node) holds(t *testing.T) (bound int) {
	t.Helper()
	addrs, err := n.Lab.Node.Addrs()
	must(t, err)
	for _, vip := range linkVIPs {
		if slices.ContainsFunc(addrs, func(a string) bool { return strings.HasPrefix(a, "kube-ipvs0 "+vip+"/") }) {
			bound++
		}
	}
	return bound
}

func (n node) untilHeld(t *testing.T, want int) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		if is := n.holds(t); is != want {
			return fmt.Errorf("%d VIPs are bound, want %d", is, want)
		}
		return nil
	}))
}

// While another host on the link answers for a VIP, it is not bound, and no other
// service waits for it. It is bound as soon as the host is gone.
func TestVIPOfAnotherHostIsNotBound(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "ipvs.syncPeriod = \"1s\"")
	n.take(t, "add")
	must(t, n.Serve(onTheLink+clusterIP("other", "10.96.0.20", allV4)))
	must(t, n.Start())
	out, err := n.Client.Run("ip", "-br", "link", "show", "eth0")
	must(t, err)
	mac := strings.Fields(out)[2]
	for _, vip := range linkVIPs {
		_, err := n.Wait(0, `msg="not taken over" err="`+vip+` is not bound: another host, `+mac+` on uplink, answers`)
		must(t, err)
	}
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
	if is := n.holds(t); is != 0 {
		t.Errorf("%d VIPs are bound beside the other host's", is)
	}
	out, code, err := n.Command("status")
	if err != nil || code != 7 || !strings.Contains(out, mac) {
		t.Errorf("status: exit code %d, %v\n%s", code, err, out)
	}
	if out, _, err := n.Command("plan"); err != nil || strings.Contains(out, "addr add 192.0.2.80") || !strings.Contains(out, "! 192.0.2.80 is not bound") {
		t.Errorf("plan: %v\n%s", err, out)
	}
	n.take(t, "del")
	n.untilHeld(t, 2)
	for _, vip := range linkVIPs {
		must(t, n.forgetNeighbor(vip))
		ask(t, n.Client, "tcp", netip.AddrPortFrom(netip.MustParseAddr(vip), 80).String())
	}

	// A bound VIP is adopted without a probe, even if another host has it, too.
	must(t, n.Stop())
	n.take(t, "add")
	mark := n.Log.Len()
	must(t, n.Start())
	_, err = n.Wait(mark, "msg=starting")
	must(t, err)
	n.serve(t, onTheLink+clusterIP("other", "10.96.0.21", allV4))
	if is := n.holds(t); is != 2 || strings.Contains(n.Log.String()[mark:], "is not bound") {
		t.Errorf("%d VIPs are bound after a restart\n%s", is, n.Log.String()[mark:])
	}

	// Without probing it is bound, even if another host answers.
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	must(t, n.Configure("ipvs.probeVIPs = false"))
	n.start(t, onTheLink)
	if is := n.holds(t); is != 2 {
		t.Errorf("without probing %d VIPs are bound", is)
	}
}

// Another svcproxy answers for an IPv6 VIP by a proxy neighbour, which Linux does
// after up to 0.8 s; for an IPv4 one at once.
func TestVIPOfAnotherSvcproxyIsNotBound(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "")
	for _, sysctl := range []string{"net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.eth0.proxy_ndp=1"} {
		_, err := n.Client.Run("sysctl", "-qw", sysctl)
		must(t, err)
	}
	must(t, n.Client.IP("link add kube-ipvs0 type dummy", "addr add 192.0.2.80/32 dev kube-ipvs0",
		"neigh add proxy 2001:db8::80 dev eth0"))
	must(t, n.Serve(onTheLink))
	must(t, n.Start())
	for _, vip := range linkVIPs {
		_, err := n.Wait(0, `msg="not taken over" err="`+vip+` is not bound: another host`)
		must(t, err)
	}
	if is := n.holds(t); is != 0 {
		t.Errorf("%d VIPs are bound on both", is)
	}
}

// Whoever remembers another place of a VIP learns of the new one at once.
func TestNewVIPsAreAnnounced(t *testing.T) {
	n := newNode(t, "")
	for _, vip := range linkVIPs {
		must(t, n.Client.IP("neigh replace "+vip+" lladdr 02:00:00:00:00:99 dev eth0 nud stale"))
	}
	began := time.Now()
	n.start(t, onTheLink)
	for _, vip := range linkVIPs {
		must(t, lab.Eventually(10*time.Second, func() error {
			out, err := n.Client.Run("ip", "neigh", "show", vip)
			if err == nil && (strings.Contains(out, "02:00:00:00:00:99") || !strings.Contains(out, "lladdr")) {
				err = fmt.Errorf("the client still knows: %s", out)
			}
			return err
		}))
	}
	t.Logf("known after %v", time.Since(began))
	for _, vip := range linkVIPs {
		ask(t, n.Client, "tcp", netip.AddrPortFrom(netip.MustParseAddr(vip), 80).String())
	}
}
