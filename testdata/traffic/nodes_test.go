package traffic

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

var sharedVIP = netip.MustParseAddrPort("198.51.100.80:7000")

// newNodes prepares several nodes behind a router, each with a svcproxy. The servers have the VIPs.
func newNodes(t *testing.T, nodes, servers int, main string, vips ...netip.Addr) (*lab.Fabric, []*lab.Proxy) {
	t.Helper()
	needKernel(t)
	path, err := filepath.Abs(binary)
	must(t, err)
	f, err := lab.NewFabric(nodes, servers, vips...)
	must(t, err)
	proxies := make([]*lab.Proxy, nodes)
	for i := range proxies {
		p, err := lab.NewProxy(f.Nodes[i], path, t.TempDir(), main)
		must(t, err)
		p.Mode = modeOf(t)
		p.Defaults = rulesToTest(p.Mode)
		must(t, p.Configure(main))
		proxies[i] = p
	}
	t.Cleanup(func() {
		for _, p := range proxies {
			wantNoAlarm(t, p)
		}
		for i, p := range proxies {
			p.Kill()
			if t.Failed() {
				t.Logf("log of node %d:\n%s", i+1, p.Log.String())
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, proxies
}

// shared is a service whose servers, given by their numbers, answer past the node.
func shared(scheduler, forward string, servers ...int) string {
	var endpoints []string
	for _, n := range servers {
		endpoints = append(endpoints, fmt.Sprintf("\"10.20.0.%d\"", 100+n))
	}
	return fmt.Sprintf("[services.web]\ntype = \"LoadBalancer\"\nloadBalancerIPs = [%q]\nports = [ { port = 7000 } ]\nforward = %q\nscheduler = %q\nendpoints = [%s]\n",
		sharedVIP.Addr(), forward, scheduler, strings.Join(endpoints, ", "))
}

// serveOn serves services on a node, which is started if start is set.
func serveOn(t *testing.T, p *lab.Proxy, start bool, services string) {
	t.Helper()
	mark, synced := p.Log.Len(), lab.SyncedTable
	must(t, p.Serve(services))
	if start {
		must(t, p.Start())
		synced = lab.Synced
	}
	if _, err := p.Wait(mark, synced); err != nil {
		t.Fatal(err)
	}
}

// heldFlow is an open connection and the server that it reached.
type heldFlow struct {
	*lab.Conn
	server string
}

func openFlows(t *testing.T, f *lab.Fabric, n int) []heldFlow {
	t.Helper()
	var all []heldFlow
	for range n {
		c, err := f.Client.Dial("tcp", sharedVIP)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		a, err := c.Ask()
		must(t, err)
		all = append(all, heldFlow{c, a.Backend})
	}
	return all
}

// wantFlows wants connections to go on with their servers, but for a few.
func wantFlows(t *testing.T, all []heldFlow, when string, few int) {
	t.Helper()
	lost := 0
	for i, c := range all {
		if a, err := c.Ask(); err != nil || a.Backend != c.server {
			if lost++; lost <= 3 {
				t.Logf("%s: connection %d of %s: %v, %v", when, i, c.server, a.Backend, err)
			}
		}
	}
	if lost > few {
		t.Errorf("%s: %d of %d connections lost", when, lost, len(all))
	}
}

// connsOf is how many connections the kernel of a node has in a state.
func connsOf(t *testing.T, h *lab.Host, state string) int {
	t.Helper()
	out, err := h.Run("ipvsadm", "-lnc")
	must(t, err)
	return strings.Count(out, state)
}

// daemonsOf are the lines of a node's daemons, without those that ipvsadm wraps.
func daemonsOf(t *testing.T, h *lab.Host) string {
	t.Helper()
	out, err := h.Run("ipvsadm", "-l", "--daemon")
	must(t, err)
	return strings.TrimSpace(out)
}

// Two nodes sync their connections, and one takes over those of the other with a scheduler that would choose
// otherwise. The daemons of the kernel are wanted state: started, healed, changed and removed; another program's stay.
func TestConnectionSync(t *testing.T) {
	const main = "ipvs.syncPeriod = \"1s\"\nha.sync.role = \"both\"\nha.sync.link = \"eth1\"\nha.sync.threshold = \"0 3\"\nha.sync.id = "
	f, nodes := newNodes(t, 2, 3, main+"7\n", sharedVIP.Addr())
	for _, p := range nodes {
		serveOn(t, p, true, shared("rr", "direct", 1, 2, 3))
	}
	for _, h := range f.Nodes {
		if out := daemonsOf(t, h); strings.Count(out, "sync daemon (mcast=eth1, syncid=7, maxlen=1472, group=224.0.0.81, port=8848, ttl=1)") != 2 {
			t.Errorf("%s has the daemons\n%s", h.Name, out)
		}
	}
	must(t, f.Route(sharedVIP.Addr(), 1))
	flows := openFlows(t, f, 40)
	must(t, lab.Eventually(patience, func() error {
		wantFlows(t, flows, "before", 0) // a connection is sent with one of its packets
		if n := connsOf(t, f.Nodes[1], "ESTABLISHED"); n < len(flows) {
			return fmt.Errorf("node 2 knows %d of %d connections", n, len(flows))
		}
		return nil
	}))
	must(t, f.Cut(1, true))
	must(t, f.Route(sharedVIP.Addr(), 2))
	wantFlows(t, flows, "node 2 has taken over", 0)

	one, p := f.Nodes[0], nodes[0]
	_, err := one.Run("ipvsadm", "--stop-daemon", "backup")
	must(t, err)
	wantDaemons := func(when string, words ...string) {
		t.Helper()
		if err := lab.Eventually(patience, func() error {
			out := daemonsOf(t, one)
			for _, word := range words {
				if !strings.Contains(out, word) {
					return fmt.Errorf("no %s in %q", word, out)
				}
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	wantDaemons("stopped by hand", "master sync daemon (mcast=eth1, syncid=7,", "backup sync daemon (mcast=eth1, syncid=7,")
	must(t, p.Configure(main+"8\n"))
	wantDaemons("another ID", "master sync daemon (mcast=eth1, syncid=8,", "backup sync daemon (mcast=eth1, syncid=8,")
	must(t, p.Stop())
	if out, code, err := p.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan after a stop: exit code %d, %v\n%s", code, err, out)
	}
	// Another program's daemon, in place of one of ours.
	_, err = one.Run("ipvsadm", "--stop-daemon", "backup")
	must(t, err)
	_, err = one.Run("ipvsadm", "--start-daemon", "backup", "--mcast-interface", "eth1", "--syncid", "99")
	must(t, err)
	mark := p.Log.Len()
	must(t, p.Start())
	if _, err := p.Wait(mark, "another program runs the backup daemon"); err != nil {
		t.Error(err)
	}
	must(t, lab.Eventually(patience, func() error {
		if out, _, err := p.Command("status"); err != nil || !strings.Contains(out, "connection sync: master and backup (foreign) on eth1, id 8") {
			return fmt.Errorf("status: %v\n%s", err, out)
		}
		return nil
	}))
	must(t, p.Stop())
	if out, code, err := p.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: exit code %d, %v\n%s", code, err, out)
	}
	if out := daemonsOf(t, one); strings.Contains(out, "master") || !strings.Contains(out, "syncid=99") {
		t.Errorf("after cleanup node 1 has the daemons %q", out)
	}
}
