package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// balanced is a service with a load balancer IP on the client's link.
const balanced = `
[services.web]
type = "LoadBalancer"
clusterIP = "10.96.0.20"
loadBalancerIPs = ["192.0.2.80", "198.51.100.80"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allV4 + "\n"

// stand is what `svcproxy status` prints of a service, and its exit code.
func (n node) stand(t *testing.T, service string) (string, int) {
	t.Helper()
	out, code, err := n.Command("status", service)
	must(t, err)
	return out, code
}

// bound reports whether kube-ipvs0 has an address.
func (n node) bound(t *testing.T, addr string) bool {
	t.Helper()
	return slices.ContainsFunc(n.read(t).Addrs, func(l string) bool { return strings.HasPrefix(l, "kube-ipvs0 "+addr+"/") })
}

// keepalived runs on the same node. When it becomes master, the VIP appears on a
// link. While it is there svcproxy serves it and neither binds nor removes it,
// through edits and a restart, under traffic. When it leaves, svcproxy binds it
// again.
func TestVIPThatAppearsOnALink(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "")
	n.start(t, balanced)
	l := newLoad(t)
	vip := netip.MustParseAddrPort("192.0.2.80:80")
	c, err := n.Client.Dial("tcp", vip)
	must(t, err)
	defer c.Close()
	l.add("one connection", func() error { _, err := c.Ask(); return err })
	l.add("a connection each", func() error { _, err := n.Client.Ask("tcp", vip); return err })
	l.goOn(t, 10)

	mark := n.Log.Len()
	must(t, n.Lab.Node.IP("addr add 192.0.2.80/32 dev uplink"))
	n.synced(t, mark)
	if n.bound(t, "192.0.2.80") {
		t.Error("bound beside the link that has it")
	}
	if out, code := n.stand(t, "web"); code != 0 || !strings.Contains(out, "serving, on uplink") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	l.goOn(t, 10)

	must(t, n.Serve("# a comment\n"+balanced))
	if out, code, err := n.Command("reload", "--wait"); code != 0 || err != nil {
		t.Errorf("an edit is refused: %v, exit code %d\n%s", err, code, out)
	}
	if out, code, err := n.Command("check", "-o", "json"); code != 0 || err != nil || !strings.Contains(out, "this host's own address") {
		t.Errorf("check: %v, exit code %d\n%s", err, code, out)
	}
	n.restart(t, "")
	must(t, lab.Eventually(patience, func() error {
		if _, code, err := n.Command("status", "web"); err != nil || code != 0 {
			return fmt.Errorf("after the restart: %v, exit code %d", err, code)
		}
		return nil
	}))
	l.goOn(t, 10)
	n.healthy(t)
	l.wantServed(t)

	mark = n.Log.Len()
	must(t, n.Lab.Node.IP("addr del 192.0.2.80/32 dev uplink"))
	n.synced(t, mark)
	if !n.bound(t, "192.0.2.80") {
		t.Error("not bound again")
	}
	ask(t, n.Client, "tcp", "192.0.2.80:80")
}

// A VIP that is the default gateway would cut the node off. Only that VIP is left
// out and named, and it is served as soon as there is another gateway. No file is
// refused for it.
func TestVIPThatIsTheGateway(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "")
	must(t, n.Lab.Node.IP("route replace default via 192.0.2.9")) // which no host has: none answers for it
	n.start(t, strings.ReplaceAll(balanced, "192.0.2.80", "192.0.2.9"))
	for _, to := range []string{"10.96.0.20:80", "198.51.100.80:80"} {
		wantEach(t, n.Client, "tcp", to)
	}
	if out, code := n.stand(t, "web"); code != 7 || !strings.Contains(out, "VIP 192.0.2.9 is this node's default gateway") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	must(t, n.Lab.Node.IP("route del default"))
	must(t, lab.Eventually(generous, func() error {
		if out, code := n.stand(t, "web"); code != 0 || !n.bound(t, "192.0.2.9") {
			return fmt.Errorf("without the gateway: exit code %d\n%s", code, out)
		}
		return nil
	}))
	must(t, n.Lab.Node.IP("route add default via 192.0.2.3"))
	if out, code := n.stand(t, "web"); code != 0 {
		t.Errorf("with another gateway: exit code %d\n%s", code, out)
	}
}

// If the default gateway becomes a host that has a VIP of an unchanged file, the VIP
// is withheld. status and reload name the service. No file is refused for it, whether
// its text changes or not. The kernel permits no gateway that is a bound VIP, so
// another host has the VIP from the start.
func TestGatewayBecomesAVIP(t *testing.T) {
	n := newNode(t, "")
	must(t, n.Client.IP("addr add 192.0.2.9/32 dev eth0"))
	text := strings.ReplaceAll(balanced, "192.0.2.80", "192.0.2.9")
	must(t, n.Serve(text))
	must(t, n.Start())
	_, err := n.Wait(0, "another host, .* answers for it")
	must(t, err)
	const taken, gateway = "answers for it", "VIP 192.0.2.9 is this node's default gateway"
	names := func(when, why, not string) {
		t.Helper()
		must(t, lab.Eventually(generous, func() error {
			if out, code := n.stand(t, "web"); code != 7 || !strings.Contains(out, why) {
				return fmt.Errorf("%s: status web: exit code %d\n%s", when, code, out)
			}
			return nil
		}))
		out, code, err := n.Command("reload", "--wait")
		if err != nil || code != 7 || !strings.Contains(out, why) || strings.Contains(out, not) {
			t.Errorf("%s: reload: %v, exit code %d\n%s", when, err, code, out)
		}
		for _, to := range []string{"10.96.0.20:80", "198.51.100.80:80"} {
			wantEach(t, n.Client, "tcp", to)
		}
	}
	names("at first", taken, gateway)
	must(t, n.Lab.Node.IP("route replace default via 192.0.2.9"))
	names("with the VIP as the gateway", gateway, taken)
	must(t, n.Serve("# a comment\n"+text))
	names("with a comment in the file", gateway, taken)
	must(t, n.Lab.Node.IP("route replace default via 192.0.2.2"))
	names("with the first gateway again", taken, gateway)
}

// A service keeps its VIP. A new service whose file sorts first gets everything
// else. This also holds across a restart, and if the new file came while
// svcproxy was stopped.
func TestNewcomerTakesNothing(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", `["10.2.1.10"]`))
	newcomer := func(name, vip, pod string) {
		t.Helper()
		text := fmt.Sprintf("[services.%s]\nexternalIPs = [\"10.96.0.20\", %q]\nports = [{ port = 80, targetPort = 7000 }]\nendpoints = [%q]\n", name, vip, pod)
		must(t, os.WriteFile(filepath.Join(n.Dir, "services.d", "0-"+name+".toml"), []byte(text), 0o644))
	}
	keeps := func(when string) {
		t.Helper()
		wantFrom(t, n.Client, "10.96.0.20:80", "pod1")
		wantFrom(t, n.Client, "198.51.100.90:80", "pod2")
		out, code := n.stand(t, "new")
		if code != 7 || !strings.Contains(out, "10.96.0.20:80/TCP is taken by web (") {
			t.Errorf("%s: exit code %d\n%s", when, code, out)
		}
		if out, code := n.stand(t, "web"); code != 0 {
			t.Errorf("%s: exit code %d\n%s", when, code, out)
		}
	}
	mark := n.Log.Len()
	newcomer("new", "198.51.100.90", "10.2.2.10")
	n.synced(t, mark)
	keeps("while it runs")

	must(t, n.Stop())
	newcomer("other", "198.51.100.91", "10.2.3.10")
	mark = n.Log.Len()
	must(t, n.Start())
	n.synced(t, mark)
	keeps("after a restart")
	wantFrom(t, n.Client, "198.51.100.91:80", "pod3")

	mark = n.Log.Len()
	must(t, n.Serve("services = {}\n"))
	n.synced(t, mark)
	wantFrom(t, n.Client, "10.96.0.20:80", "pod2")
}

// A service of an API server stays served when its load balancer IP appears on a
// link, as with kube-vip, without any event of the API server. plan knows what
// the API server has, from the daemon or by itself, or says that it does not.
func TestAPIServersServiceOnALink(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	server, err := n.Lab.Node.ServeObjects(kubeconfig, `{"metadata": {"namespace": "default", "name": "web"}, "spec": {"type": "LoadBalancer",
		"clusterIP": "10.96.0.20", "clusterIPs": ["10.96.0.20"], "loadBalancerSourceRanges": ["192.0.2.0/24"],
		"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.80"}]}}}`,
		`{"metadata": {"namespace": "default", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
		"ports": [{"port": 7000, "protocol": "TCP", "name": ""}], "endpoints": [{"addresses": ["10.2.1.10"]}]}`)
	must(t, err)
	defer server.Close()
	must(t, n.Configure(fmt.Sprintf("sources.apiserver.enabled = true\nclientConnection.kubeconfig = %q\n", kubeconfig)))
	n.start(t, "# all from the API server\n")
	served := func(when string) {
		t.Helper()
		for _, to := range []string{"10.96.0.20:80", "192.0.2.80:80", "192.0.2.1:30080"} {
			if _, err := n.Client.Ask("tcp", netip.MustParseAddrPort(to)); err != nil {
				t.Errorf("%s: %s: %v", when, to, err)
			}
		}
	}
	settled := func(when string) {
		t.Helper()
		if out, code, err := n.Command("plan", "--detailed-exitcode"); err != nil || code != 0 || strings.TrimSpace(out) != "" && !strings.Contains(out, "nothing") {
			t.Errorf("%s: plan: %v, exit code %d\n%s", when, err, code, out)
		}
	}
	served("at first")
	settled("at first")
	move := func(verb string, bound bool) {
		t.Helper()
		mark := n.Log.Len()
		must(t, n.Lab.Node.IP("addr "+verb+" 192.0.2.80/32 dev uplink"))
		n.synced(t, mark)
		served("after addr " + verb)
		if n.bound(t, "192.0.2.80") != bound {
			t.Errorf("after addr %s: bound %t", verb, !bound)
		}
	}
	move("add", false)
	// A start lists the services again, with the address on the link.
	must(t, n.Stop())
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error {
		if out, code := n.stand(t, "default/web"); code != 0 || !strings.Contains(out, "serving, on uplink") {
			return fmt.Errorf("after the restart: exit code %d\n%s", code, out)
		}
		return nil
	}))
	served("after a restart with it")
	move("del", true)
	must(t, n.Stop())
	settled("with svcproxy stopped")
	must(t, os.Rename(kubeconfig, kubeconfig+".away"))
	if out, code, err := n.Command("plan"); err != nil || code != 1 || !strings.Contains(out, "no plan can be made") || strings.Contains(out, "10.96.0.20") {
		t.Errorf("without a way to know: %v, exit code %d\n%s", err, code, out)
	}
}
