package traffic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// everywhere are the addresses of web, but for node ports.
var everywhere = []string{"10.96.0.20:80", "203.0.113.9:80", "198.51.100.80:80", "[fd00:96::20]:80", "[2001:db8:9::9]:80", "[2001:db8:80::80]:80"}

// wantWeb wants web served at all its addresses, by every backend.
func (n node) wantWeb(t *testing.T, when string) {
	t.Helper()
	for _, to := range everywhere {
		for _, network := range []string{"tcp", "udp"} {
			found := map[string]bool{}
			for range 60 {
				a, err := n.Client.Ask(network, netip.MustParseAddrPort(to))
				if err != nil {
					t.Fatalf("%s: %s over %s: %v", when, to, network, err)
				}
				if found[a.Backend] = true; len(found) == 3 {
					break
				}
			}
			if len(found) != 3 {
				t.Errorf("%s: %s over %s reached %v alone", when, to, network, found)
			}
		}
	}
}

const modeIPTables = "mode = \"iptables\"\niptables.syncPeriod = \"2s\"\niptables.minSyncPeriod = \"0s\"\n"

// Mode iptables serves every kind of address by rules alone, writes nothing at a restart, heals what others remove, and
// cleanup leaves nothing.
func TestModeIPTables(t *testing.T) {
	n := newNode(t, modeIPTables)
	before := n.read(t)
	n.start(t, web)
	n.wantWeb(t, "at the start")
	served := n.read(t)
	n.healthy(t)
	if len(served.Virtuals) > 0 {
		t.Errorf("IPVS serves, too: %q", served.Virtuals)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: exit code %d, %v\n%s", code, err, out)
	}
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error { // a start that writes nothing logs nothing
		out, code, err := n.Command("reload", "--wait")
		if err == nil && code != 0 {
			err = fmt.Errorf("reload: exit code %d\n%s", code, out)
		}
		return err
	}))
	n.wantWeb(t, "after a restart")
	if diff := lab.Diff(served, n.read(t)); diff != "" {
		t.Errorf("a restart changed the kernel:\n%s", head(diff))
	}
	for _, drift := range [][]string{
		{"iptables", "-t", "nat", "-F", "KUBE-SERVICES"},
		{"iptables", "-t", "nat", "-F"},
		{"ip6tables", "-t", "nat", "-F"},
	} {
		mark := n.Log.Len()
		n.tool(t, drift[0], drift[1:]...)
		if _, err := n.Wait(mark, lab.Synced); err != nil {
			t.Fatalf("%v: %v", drift, err)
		}
		n.wantWeb(t, strings.Join(drift, " "))
	}
	held := n.chat(t, "10.96.0.20:80", "pod1")
	n.serve(t, strings.ReplaceAll(web, `"10.2.1.10", `, ""))
	for range 12 {
		if a := ask(t, n.Client, "tcp", "10.96.0.20:80"); a.Backend == "pod1" {
			t.Error("a new connection went to an endpoint that is gone")
		}
	}
	held.wantAlive(t)
	n.cleanUp(t, before)
}

// holdMany opens 200 connections to web over both families, 60 in a guest. They are idle but for the questions of unanswered.
func (n node) holdMany(t *testing.T) (held []*lab.Conn) {
	t.Helper()
	many := 200
	if emulated() {
		many = 60
	}
	for i := range many {
		to := [...]string{"10.96.0.20:80", "[fd00:96::20]:80"}[i%2]
		c, err := n.Client.Dial("tcp", netip.MustParseAddrPort(to))
		must(t, err)
		t.Cleanup(func() { c.Close() })
		if _, err := c.Ask(); err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		held = append(held, c)
	}
	return held
}

// unanswered asks on each connection, and returns how many no longer answer. A client waits seconds for a connection that is
// gone without a reset, so it asks on 20 of them at a time.
func unanswered(held []*lab.Conn) int {
	var count atomic.Int64
	var asked sync.WaitGroup
	for some := range slices.Chunk(held, (len(held)+19)/20) {
		asked.Go(func() {
			for _, c := range some {
				if _, err := c.Ask(); err != nil {
					count.Add(1)
				}
			}
		})
	}
	asked.Wait()
	return int(count.Load())
}

// A change of the mode loses no connection, and refuses no new one. From ipvs to iptables or nftables, IPVS carries what
// it has to the end; back again, the connection tracker does.
func TestChangeOfMode(t *testing.T) {
	const quick = "ipvs.syncPeriod = \"2s\"\n"
	n := newNode(t, quick)
	n.start(t, web)
	load := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		addr := netip.MustParseAddrPort(to)
		load.add(to, func() error { _, err := n.Client.Ask("tcp", addr); return err })
	}
	var chats []*chat
	var held []*lab.Conn
	native := quick + "rules.backend = \"nftables\"\n"
	for i, main := range []string{modeIPTables, quick, modeNFTables, native, modeNFTables, quick} {
		held = append(held, n.holdMany(t)...)
		chats = append(chats, n.chat(t, "10.96.0.20:80", fmt.Sprintf("pod%d", i%3+1)))
		mark := n.Log.Len()
		n.restart(t, main)
		n.synced(t, mark)
		load.goOn(t, 40)
		if n := unanswered(held); n > 0 {
			t.Errorf("%d of %d connections were lost by the change to %s", n, len(held), main)
		}
	}
	for _, c := range chats {
		c.wantAlive(t)
		c.Close()
	}
	load.wantServed(t)
	n.wantWeb(t, "in the end")
}
