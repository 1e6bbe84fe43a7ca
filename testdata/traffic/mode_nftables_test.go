package traffic

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const modeNFTables = "mode = \"nftables\"\niptables.syncPeriod = \"2s\"\niptables.minSyncPeriod = \"0s\"\n"

// tables returns our tables as nft lists them.
func (n node) tables(t *testing.T) string {
	t.Helper()
	return n.tool(t, "nft", "-s", "list", "table", "ip", "svcproxy") + n.tool(t, "nft", "-s", "list", "table", "ip6", "svcproxy")
}

// startAgain starts svcproxy, and waits until it serves. A start that writes nothing logs nothing.
func (n node) startAgain(t *testing.T) {
	t.Helper()
	must(t, n.Start())
	must(t, lab.Eventually(patience, func() error {
		out, code, err := n.Command("reload", "--wait")
		if err == nil && code != 0 {
			err = fmt.Errorf("reload: exit code %d\n%s", code, out)
		}
		return err
	}))
}

// Mode nftables serves every kind of address by maps, writes nothing at a restart, heals what others remove, and cleanup
// leaves nothing. Connections outlive any number of endpoints.
func TestModeNFTables(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	n := newNode(t, modeNFTables)
	before := n.read(t)
	n.start(t, web)
	n.wantWeb(t, "at the start")
	n.healthy(t)
	served := n.tables(t)
	if rules := n.tool(t, "iptables-save"); strings.Contains(rules, "KUBE-") {
		t.Errorf("iptables has rules, too:\n%s", rules)
	}
	must(t, n.Stop())
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: exit code %d, %v\n%s", code, err, out)
	}
	n.startAgain(t)
	n.wantWeb(t, "after a restart")
	if now := n.tables(t); len(now) != len(served) { // elements are listed in any order
		t.Errorf("a restart changed the tables:\n%s\nthey were:\n%s", now, served)
	}
	for _, drift := range []string{
		"flush ruleset", "delete table ip6 svcproxy", "flush map ip svcproxy KUBE-SLOTS", "flush map ip svcproxy KUBE-FRONTENDS",
		"flush chain ip svcproxy nat-KUBE-SERVICES",
	} {
		mark := n.Log.Len()
		n.tool(t, "nft", strings.Fields(drift)...)
		if _, err := n.Wait(mark, lab.Synced); err != nil {
			t.Fatalf("%s: %v", drift, err)
		}
		n.wantWeb(t, drift)
	}
	held := n.chat(t, "10.96.0.20:80", "pod1")
	for _, pods := range []string{`"10.2.2.10", "10.2.3.10"`, `"10.2.3.10"`, `"10.2.2.10"`, ``, `"10.2.2.10", "10.2.3.10"`} {
		n.serve(t, strings.ReplaceAll(web, allPods, "["+pods+"]"))
		for range 12 {
			a, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:80"))
			if pods != "" {
				must(t, err)
			}
			if err == nil && (pods == "" || !strings.Contains(pods, n.Backend(a.Backend).V4.String())) {
				t.Errorf("endpoints %s: %s answers", pods, a.Backend)
			}
		}
	}
	held.wantAlive(t)
	n.cleanUp(t, before)
	if left := n.tool(t, "nft", "list", "tables"); strings.Contains(left, "svcproxy") {
		t.Errorf("cleanup left\n%s", left)
	}
}

// A change between modes nftables and iptables loses no connection, and refuses no new one.
func TestChangeBetweenNFTablesAndIPTables(t *testing.T) {
	n := newNode(t, modeNFTables)
	n.start(t, web)
	load := newLoad(t)
	for _, to := range []string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		addr := netip.MustParseAddrPort(to)
		load.add(to, func() error { _, err := n.Client.Ask("tcp", addr); return err })
	}
	var held []*lab.Conn
	for _, main := range []string{modeIPTables, modeNFTables} {
		held = append(held, n.holdMany(t)...)
		mark := n.Log.Len()
		n.restart(t, main)
		n.synced(t, mark)
		load.goOn(t, 40)
		if n := unanswered(held); n > 0 {
			t.Errorf("%d of %d connections were lost by the change to %s", n, len(held), main)
		}
	}
	load.wantServed(t)
	n.wantWeb(t, "in the end")
}

// Each new connection counts once, for the endpoint that got it: at every address, over a restart, kill -9 and changes of
// endpoints and weights. status, top, metrics and nft say the same.
func TestModeNFTablesCounts(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	n := newNode(t, modeNFTables+listeners)
	n.start(t, web)
	answered, asked := map[string]int{}, 0
	request := func() {
		t.Helper()
		for _, to := range []string{"10.96.0.20:80", "203.0.113.9:80", "192.0.2.1:30080", "[2001:db8:80::80]:80"} {
			for range 25 {
				answered[ask(t, n.Client, "tcp", to).Backend]++
				asked++
			}
		}
	}
	counted := func(when string) {
		t.Helper()
		err := lab.Eventually(10*time.Second, func() error { // the last reading counts for half a second
			s := n.status(t, "web").Services[0]
			of := map[string]int{}
			for _, e := range s.Endpoints {
				for name := range answered {
					if b := n.Backend(name); e.Protocol == "tcp" && (b.V4 == e.Address.Addr() || b.V6 == e.Address.Addr()) {
						of[name] += e.Traffic.Connections
					}
				}
			}
			if s.Traffic.Connections != asked || !maps.Equal(of, answered) {
				return fmt.Errorf("%s: %d connections are counted, %v, but %d were made, %v", when, s.Traffic.Connections, of,
					asked, answered)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		n.says(t, 0, "top -n 1 -d 100ms", "- active", "0 new/s; in -/s")
		sum := fmt.Sprintf(`svcproxy_service_connections_total{name="web",service="web"} %d`, asked)
		answers(t, n.Lab.Node.HTTP(patience), "http://127.0.0.1:10249/metrics", 200, sum)
	}
	listed := func() (sum int) {
		for _, of := range []string{"ip svcproxy KUBE-SLOTS", "ip6 svcproxy KUBE-6-SLOTS"} {
			out := n.tool(t, "nft", strings.Fields("-j list map "+of)...)
			for _, m := range regexp.MustCompile(`"packets": (\d+)`).FindAllStringSubmatch(out, -1) {
				packets, err := strconv.Atoi(m[1])
				must(t, err)
				sum += packets
			}
		}
		return sum
	}
	counted("at the start")
	request()
	counted("after 100 requests")
	must(t, n.Stop())
	n.startAgain(t)
	counted("after a restart")
	request()
	n.Kill()
	n.startAgain(t)
	counted("after kill -9")
	if sum := listed(); sum != asked {
		t.Errorf("nft lists %d connections of %d", sum, asked)
	}
	request()
	counted("after 300 requests")
	for _, c := range []struct{ when, endpoints string }{
		{"other weights", `[{ address = "10.2.1.10", weight = 3 }, "10.2.2.10", "10.2.3.10", "fd00:2:1::10", "fd00:2:2::10", "fd00:2:3::10"]`},
		{"equal weights", allPods},
	} {
		n.serve(t, strings.ReplaceAll(web, allPods, c.endpoints))
		counted(c.when)
		request()
		counted("requests after " + c.when)
	}
	n.serve(t, strings.ReplaceAll(web, allPods, `["10.2.1.10", "10.2.3.10", "fd00:2:1::10", "fd00:2:3::10"]`))
	delete(answered, "pod2") // its connections stay with the service
	counted("an endpoint is gone")
}
