package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// binary is what `make build` makes.
const binary = "../../bin/svcproxy"

// A node is a lab whose node has a svcproxy.
type node struct {
	*lab.Lab
	*lab.Proxy
}

// patience is how long what must happen may take. A wait that passes costs nothing, and a guest on a busy machine
// has taken more than a minute for what takes seconds here. What a test measures has a limit of its own.
const patience = 3 * time.Minute

// newNode prepares a whole lab; main is svcproxy.toml's own part.
func newNode(t *testing.T, main string) node {
	t.Helper()
	names(t, main)
	needKernel(t)
	return prepare(t, lab.New, main)
}

// newLonelyNode prepares a node without clients and backends.
func newLonelyNode(t *testing.T, main string) node {
	t.Helper()
	names(t, main)
	needKernel(t)
	return prepare(t, lab.NewNode, main)
}

func needKernel(t *testing.T) {
	t.Helper()
	kerneltest.Need(t, kerneltest.Root)
	if modeOf(t) == "ipvs" {
		kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy)
	}
	for _, tool := range []string{"ip", "ipset", "ipvsadm", "iptables", "conntrack", "ping"} {
		kerneltest.Need(t, kerneltest.Tool(tool))
	}
}

// inGuest skips a test that does more to a machine than namespaces keep from it.
func inGuest(t *testing.T, does string) {
	t.Helper()
	if !emulated() {
		t.Skip(does + ": only in the guest")
	}
}

func prepare(t *testing.T, build func() (*lab.Lab, error), main string) node {
	t.Helper()
	names(t, main)
	path, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no svcproxy to test, `make build` makes it: %v", err)
	}
	l, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := lab.NewProxy(l.Node, path, t.TempDir(), main)
	if err != nil {
		t.Fatal(err)
	}
	p.Mode = modeOf(t)
	p.Defaults = rulesToTest(p.Mode)
	if p.Mode != "ipvs" {
		p.Defaults = map[string]string{
			"iptables.minSyncPeriod": "0s",  // as that of mode ipvs is
			"udpIdleTimeout":         "10s", // with 250 ms a slow machine loses datagrams
		}
		if kerneltest.Dummy.Missing() != nil {
			p.Defaults["ipvs.vipBinding"] = "route"
		}
	}
	must(t, p.Configure(main))
	n := node{l, p}
	if p.Mode == "iptables" {
		n.makeTables(t)
	}
	t.Cleanup(func() {
		if len(l.Backends) > 0 { // doctor says that a lonely node has no routes to backends
			wantNoAlarm(t, p)
		}
		p.Kill()
		if t.Failed() {
			t.Logf("svcproxy's log:\n%s", p.Log.String())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// makeTables makes the tables that svcproxy's first look at iptables would make. They
// stay, so a reading from before would differ.
func (n node) makeTables(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"iptables-restore", "ip6tables-restore"} {
		n.feed(t, "*nat\n:NONE - [0:0]\n-X NONE\nCOMMIT\n*filter\n:NONE - [0:0]\n-X NONE\nCOMMIT\n", tool)
	}
}

// start starts svcproxy and waits for its first sync.
func (n node) start(t *testing.T, services string) {
	t.Helper()
	must(t, n.Serve(services))
	mark := n.Log.Len()
	must(t, n.Start())
	n.synced(t, mark)
}

// serve saves other services and waits until they are served.
func (n node) serve(t *testing.T, services string) {
	t.Helper()
	mark := n.Log.Len()
	must(t, n.Serve(services))
	n.synced(t, mark)
}

// synced waits for a sync that changed something, and wants none to have failed.
func (n node) synced(t *testing.T, mark int) {
	t.Helper()
	if _, err := n.Wait(mark, lab.Synced); err != nil {
		t.Fatal(err)
	}
}

// restart stops svcproxy and starts it with another configuration.
func (n node) restart(t *testing.T, main string) {
	t.Helper()
	must(t, n.Stop())
	must(t, n.Configure(main))
	must(t, n.Start())
}

func (n node) read(t *testing.T) lab.Reading {
	t.Helper()
	r, err := n.Lab.Node.Read()
	must(t, err)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool runs a program on the node.
func (n node) tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := n.Lab.Node.Run(name, args...)
	must(t, err)
	return out
}

// feed runs a program on the node with something to read.
func (n node) feed(t *testing.T, stdin, name string, args ...string) {
	t.Helper()
	_, err := n.Lab.Node.Feed(stdin, name, args...)
	must(t, err)
}

// ask asks and wants an answer.
func ask(t *testing.T, from *lab.Host, network, to string) lab.Answer {
	t.Helper()
	a, err := from.Ask(network, netip.MustParseAddrPort(to))
	if err != nil {
		t.Errorf("%s asks %s over %s: %v", from.Name, to, network, err)
	}
	return a
}

// allPods are endpoints in every backend, of both families.
const allPods = `["10.2.1.10", "10.2.2.10", "10.2.3.10", "fd00:2:1::10", "fd00:2:2::10", "fd00:2:3::10"]`

// web is a service with every kind of address, TCP and UDP.
const web = `
[services.web]
type = "LoadBalancer"
clusterIPs = ["10.96.0.20", "fd00:96::20"]
externalIPs = ["203.0.113.9", "2001:db8:9::9"]
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
ports = [
  { name = "tcp", port = 80, targetPort = 7000, nodePort = 30080 },
  { name = "udp", port = 80, targetPort = 7000, nodePort = 30080, protocol = "UDP" },
]
endpoints = ` + allPods + "\n"

// clusterIP is a service of one TCP port 80 and the endpoints given.
func clusterIP(name, vip, endpoints string) string {
	return fmt.Sprintf("[services.%s]\nclusterIP = %q\nports = [{ port = 80, targetPort = %d }]\nendpoints = %s\n",
		name, vip, lab.LinePort, endpoints)
}
