package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// gateway is the address that keepalived gives to the master of a pair: the router sends packets to VIPs there, and the
// servers everything.
const gateway = "10.20.0.253"

// pairVIPs are of a service whose servers see the client, and of one whose servers see the node.
var pairVIPs = [2]netip.AddrPort{sharedVIP, netip.MustParseAddrPort("198.51.100.81:7000")}

const pairServices = `
[services.seen]
vips = ["198.51.100.80"]
keepClientAddress = true
announce = true
port = 7000
scheduler = "rr"
backends = ["10.20.0.101", "10.20.0.102", "10.20.0.103"]
[services.hidden]
vips = ["198.51.100.81"]
keepClientAddress = false
port = 7000
scheduler = "rr"
backends = ["10.20.0.101", "10.20.0.102", "10.20.0.103"]
`

// pairSync is what svcproxy.toml of each node of a pair says to sync connections.
const pairSync = "ha.sync.role = \"both\"\nha.sync.link = \"eth1\"\nha.sync.threshold = \"0 3\"\n"

// pair is two nodes that masquerade, of which keepalived makes one the master.
type pair struct {
	*lab.Fabric
	nodes []*lab.Proxy
	files []string // announce.file of each
}

// configure writes svcproxy.toml of both nodes. After a time as backup, connection tracking sees packets outside of the
// windows that it knows: tcpBeLiberal has it follow them.
func (p *pair) configure(t *testing.T, more string) {
	t.Helper()
	for i, n := range p.nodes {
		must(t, n.Configure(fmt.Sprintf("ipvs.syncPeriod = \"1s\"\nipvs.strictARP = true\nconntrack.tcpBeLiberal = true\nannounce.mode = \"vrrp\"\nannounce.holdUp = \"0s\"\nannounce.file = %q\n", p.files[i])+more))
	}
}

// newPair starts two nodes with these addresses of keepalived. The second node's priority is less by lower.
func newPair(t *testing.T, lower int, addrs ...string) *pair {
	t.Helper()
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	p := &pair{}
	p.Fabric, p.nodes = newNodes(t, 2, 3, "")
	for _, n := range p.nodes {
		p.files = append(p.files, filepath.Join(n.Dir, "announced"))
	}
	p.configure(t, pairSync)
	must(t, p.Router.IP("route add 198.51.100.80/31 via "+gateway))
	for _, b := range p.Backends {
		must(t, b.IP("route replace default via "+gateway))
	}
	text, err := os.ReadFile(example(t, "keepalived.conf"))
	must(t, err)
	for i, n := range p.nodes {
		serveOn(t, n, true, pairServices)
		config := strings.NewReplacer("/run/svcproxy/announced", p.files[i], "interface eth0", "interface eth1", "192.0.2.80/32", strings.Join(addrs, "\n\t\t"),
			"priority 250", fmt.Sprintf("priority %d", 250-lower*i)).Replace(string(text))
		node{Proxy: n}.keepalived(t, p.Nodes[i], config)
	}
	return p
}

// master waits until one node has the gateway's address, and returns its number, counted from 1.
func (p *pair) master(t *testing.T) (n int) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		n = 0
		for i, h := range p.Nodes {
			addrs, err := h.Addrs()
			if err != nil {
				return err
			}
			if strings.Contains(strings.Join(addrs, "\n"), gateway+"/24") {
				n += i + 1
			}
		}
		if n != 1 && n != 2 {
			return fmt.Errorf("no node is the master, or both are")
		}
		return nil
	}))
	p.masterIs(t, n)
	return n
}

// masterIs waits until a node, counted from 1, has the gateway's address and answers there.
func (p *pair) masterIs(t *testing.T, n int) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		addrs, err := p.Nodes[n-1].Addrs()
		if err == nil && !strings.Contains(strings.Join(addrs, "\n"), gateway+"/24") {
			err = fmt.Errorf("node %d is not the master", n)
		}
		if err == nil {
			_, err = p.Client.Ask("tcp", sharedVIP)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// failOver cuts the master off, both links at once, and returns how many connections of each service are lost when the other
// node has taken over.
func (p *pair) failOver(t *testing.T, flows [2]*lab.Flows) [2]int {
	t.Helper()
	took := stopwatch(t)
	must(t, p.CutAll(1, true))
	p.masterIs(t, 2)
	took("taken over", 15*time.Second) // three adverts missed, a SYN that is sent again, and a slow machine
	return lostOf(flows)
}

// failBack repairs the links of the first node, which becomes the master again.
func (p *pair) failBack(t *testing.T, flows [2]*lab.Flows) [2]int {
	t.Helper()
	must(t, p.CutAll(1, false))
	p.masterIs(t, 1)
	return lostOf(flows)
}

// lostOf asks on all connections, and returns how many were lost since the last call.
func lostOf(flows [2]*lab.Flows) (n [2]int) {
	for i, f := range flows {
		f.Round()
		n[i] = len(f.Lost())
	}
	return n
}

// flows opens connections to each service.
func (p *pair) flows(t *testing.T, seen, hidden int) (all [2]*lab.Flows) {
	t.Helper()
	for i, n := range []int{seen, hidden} {
		f, err := p.Client.OpenFlows(n, pairVIPs[i])
		must(t, err)
		t.Cleanup(f.Close)
		f.Round() // a connection is sent with every third of its packets
		all[i] = f
	}
	return all
}

// Two nodes masquerade, and keepalived gives a gateway's address to one of them. With connection sync, connections whose
// servers see the client go on when the other node takes over, and when it gives back. Those whose servers see the node do
// not: the kernel does not sync the ports that a node has chosen for them. Without sync none goes on, unless both nodes
// choose alike.
func TestPairOfMasqueradingNodes(t *testing.T) {
	const seen, hidden, few = 200, 30, 10
	p := newPair(t, 5, gateway+"/24")
	p.masterIs(t, 1)
	p.keepsSeen(t, "with sync", seen, hidden, few)

	p.configure(t, "")
	for i, h := range p.Nodes {
		must(t, lab.Eventually(patience, func() error {
			if out := daemonsOf(t, h); out != "" {
				return fmt.Errorf("node %d syncs still: %s", i+1, out)
			}
			return nil
		}))
	}
	flows := p.flows(t, hidden, hidden)
	over := p.failOver(t, flows)
	t.Logf("without sync: %d and %d of %d connections lost", over[0], over[1], hidden)
	if over != [2]int{hidden, hidden} {
		t.Error("without sync a connection goes on")
	}
	p.failBack(t, flows)
	p.choosesAlike(t)
}

// choosesAlike wants connections to go on without sync if both nodes choose alike: with scheduler mh and sloppyTCP. Servers
// that see the node lose theirs all the same.
func (p *pair) choosesAlike(t *testing.T) {
	t.Helper()
	const seen, hidden, few = 100, 10, 2
	p.configure(t, "ipvs.sloppyTCP = \"on\"\n")
	for _, n := range p.nodes {
		serveOn(t, n, false, strings.ReplaceAll(pairServices, `"rr"`, `"mh"`))
	}
	p.keepsSeen(t, "with mh and sloppyTCP, without sync", seen, hidden, few)
}

// keepsSeen wants the other node to take over and give back connections whose servers see the client, but for a few. It
// loses those whose servers see the node.
func (p *pair) keepsSeen(t *testing.T, how string, seen, hidden, few int) {
	t.Helper()
	flows := p.flows(t, seen, hidden)
	over := p.failOver(t, flows)
	back := p.failBack(t, flows)
	t.Logf("%s: %d of %d connections lost whose servers see the client, %d more on the way back; %d of %d whose servers see the node",
		how, over[0], seen, back[0], over[1], hidden)
	if over[0]+back[0] > few {
		t.Errorf("%s: %d of %d connections whose servers see the client are lost, want %d at most", how, over[0]+back[0], seen, few)
	}
	if over[1] != hidden {
		t.Errorf("%s: %d of %d connections whose servers see the node are lost, want all", how, over[1], hidden)
	}
}

// Maintenance of both nodes in turn, with keepalived.conf as it is shipped and the recipe of svcproxy-ha(7): node drain
// waits until the VIPs have left, and undrain moves nothing back. So each maintenance moves the VIPs once.
// Connections whose servers see the client go on.
func TestMaintenanceOfAPair(t *testing.T) {
	const seen, hidden = 100, 10
	p := newPair(t, 0, gateway+"/24", "198.51.100.80/32", "198.51.100.81/32")
	p.master(t)
	flows := p.flows(t, seen, hidden)
	ends := hidden // once: then there are none left
	for range 2 {
		m := p.master(t)
		master, backup := node{Proxy: p.nodes[m-1]}, node{Proxy: p.nodes[2-m]}
		master.hasVIPs(t, "VIPs here: 2 of 2 (eth1)")
		backup.hasVIPs(t, "VIPs here: none (backup)")
		stop := p.newcomers(t)
		master.order(t, 0, "node drain --wait")
		master.hasVIPs(t, "VIPs here: none (drained)")
		p.masterIs(t, 3-m)
		stop()
		lost := lostOf(flows)
		t.Logf("node %d drained: %d of %d connections lost whose servers see the client, %d of %d others", m, lost[0], seen,
			lost[1], hidden)
		if lost != [2]int{0, ends} {
			t.Errorf("node %d drained: %v connections are lost, want %v", m, lost, [2]int{0, ends})
		}
		ends = 0
		master.order(t, 0, "node undrain")
		must(t, lab.Eventually(patience, func() error {
			text, err := os.ReadFile(p.files[m-1])
			if err == nil && string(text) != "0\n" {
				err = fmt.Errorf("keepalived is told %q", text)
			}
			return err
		}))
		backup.hasVIPs(t, "VIPs here: 2 of 2 (eth1)")
	}
}

// newcomers opens 20 connections a second to the service whose servers see the client, until it is told to stop. But for
// a few they must be answered: one that begins while the VIPs move is reset, if the master has not sent it yet.
func (p *pair) newcomers(t *testing.T) (stop func()) {
	end, done := make(chan bool), make(chan []error)
	go func() {
		var failed []error
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-end:
				t.Logf("%d new connections, %d failed", n, len(failed))
				done <- failed
				return
			case <-tick.C:
			}
			if _, err := p.Client.Ask("tcp", sharedVIP); err != nil {
				failed = append(failed, err)
			}
		}
	}()
	return func() {
		t.Helper()
		close(end)
		const few = 5 // seen: 1
		if failed := <-done; len(failed) > few {
			t.Errorf("%d new connections failed, want %d at most: %v", len(failed), few, failed)
		}
	}
}
