package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// announcing is a configuration that announces by routes, without pauses.
const announcing = `health.massFailure = "believe"
ipvs.syncPeriod = "2s"
announce.mode = "routes"
announce.holdUp = "0s"
announce.drainTime = "1h"
announce.file = "%s/announced"
`

// withdrawing is a configuration whose drains are over at once. However slow the machine, a test sees both parts of a drain.
func withdrawing(main string) string {
	return strings.Replace(main, `announce.drainTime = "1h"`, `announce.drainTime = "0s"`, 1)
}

// announcedWeb is a service with VIPs to announce and one cluster IP, and one that is not announced.
const announcedWeb = `
[services.web]
type = "LoadBalancer"
clusterIP = "10.96.0.20"
externalIPs = ["203.0.113.9"]
loadBalancerIPs = ["198.51.100.80", "2001:db8:80::80"]
ports = [{ port = 80, targetPort = 7100 }]
endpoints = ` + allPods + `
healthCheck = { type = "tcp", ` + patient + ` }
[services.silent]
externalIPs = ["203.0.113.10"]
ports = [{ port = 80, targetPort = 7000 }]
endpoints = ` + allV4 + `
announce = false
`

// announcedVIPs are those of announcedWeb, as `ip route` shows their routes with a metric.
func announcedVIPs(metric int) []string {
	return []string{fmt.Sprintf("2001:db8:80::80 %d", metric), fmt.Sprintf("198.51.100.80 %d", metric), fmt.Sprintf("203.0.113.9 %d", metric)}
}

// announcements are our routes in table 143: "ADDRESS METRIC", IPv6 first.
func (n node) announcements() (list []string, err error) {
	for _, family := range []string{"-6", "-4"} {
		out, err := n.Lab.Node.Run("ip", family, "route", "show", "table", "143", "proto", "143")
		if err != nil && !strings.Contains(err.Error(), "FIB table does not exist") {
			return nil, err
		}
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if i := slices.Index(f, "metric"); f[0] == "unreachable" && i > 0 {
				list = append(list, f[1]+" "+f[i+1])
			}
		}
	}
	return list, nil
}

// announces waits until these routes are there, and no others.
func (n node) announces(t *testing.T, when string, want ...string) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		got, err := n.announcements()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("announced are %q, want %q", got, want)
		}
		return err
	}); err != nil {
		out, _ := n.asks(t, "status")
		t.Fatalf("%s: %v\n%s", when, err, out)
	}
}

// TestAnnouncedVIPs: a routing daemon finds a route for each VIP that this node can serve, and for no
// other. It is withdrawn when no endpoint is up and when the node is drained, stays over a restart, and
// comes back when another program removes it. Routes of others in the table stay.
func TestAnnouncedVIPs(t *testing.T) {
	n := newNode(t, "")
	main := fmt.Sprintf(announcing, t.TempDir())
	must(t, n.Configure(main))
	must(t, n.Lab.Node.IP("route add blackhole 198.51.100.99 table 143 proto static", "route add unreachable 203.0.113.99 table 143 proto bird metric 100"))
	ports := n.openPorts(t, 7100, lines)
	n.start(t, announcedWeb)
	n.announces(t, "started", announcedVIPs(100)...)
	for _, to := range []string{"198.51.100.80:80", "203.0.113.9:80", "[2001:db8:80::80]:80", "203.0.113.10:80"} {
		ask(t, n.Client, "tcp", to)
	}
	addrs, err := n.Lab.Node.Addrs()
	must(t, err)
	for _, a := range addrs {
		if strings.Contains(a, "198.51.100.80") || strings.Contains(a, "2001:db8:80::80") || strings.Contains(a, "203.0.113.9/") {
			t.Errorf("an announced VIP is an address: %s", a)
		}
	}
	n.eventually(t, patience, "status", "announced: 3 of 3 VIPs")
	n.order(t, 0, "plan --detailed-exitcode")
	n.healthy(t)

	for _, p := range ports {
		must(t, p.Close())
	}
	n.announces(t, "all endpoints are down")
	n.eventually(t, patience, "status web", "198.51.100.80: not announced: port 80/tcp: 0 of 3 endpoints can serve, and it needs 1")
	n.eventually(t, patience, "events", "withdrawn  ", "2001:db8:80::80: port 80/tcp: 0 of 3 endpoints can serve, and it needs 1: web")
	must(t, ports[0].Open())
	n.announces(t, "one endpoint is up", announcedVIPs(100)...)

	must(t, n.Lab.Node.IP("route del unreachable 198.51.100.80 table 143 metric 100", "route add unreachable 198.51.100.80 table 144 proto 143 metric 100"))
	n.announces(t, "after drift", announcedVIPs(100)...)

	n.order(t, 0, "node drain --reason upgrade")
	n.announces(t, "drained", announcedVIPs(2000)...)
	must(t, n.Configure(withdrawing(main)))
	n.announces(t, "drained for longer than drainTime")
	ask(t, n.Client, "tcp", "198.51.100.80:80")
	n.eventually(t, patience, "status", "announced: 0 of 3 VIPs", "the node is drained")
	n.order(t, 0, "node undrain")
	n.announces(t, "undrained", announcedVIPs(100)...)

	must(t, n.Stop())
	n.announces(t, "stopped", announcedVIPs(100)...)
	must(t, n.Start())
	n.eventually(t, patience, "status", "announced: 3 of 3 VIPs")
	n.announces(t, "restarted", announcedVIPs(100)...)

	n.order(t, 1, "announce withdraw", "use svcproxy node drain")
	n.order(t, 0, "announce withdraw --if-dead")
	n.announces(t, "while svcproxy runs", announcedVIPs(100)...)
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	n.announces(t, "cleanup")
	table := n.tool(t, "ip", "route", "show", "table", "143")
	if !strings.Contains(table, "blackhole 198.51.100.99 proto static") || !strings.Contains(table, "unreachable 203.0.113.99 proto bird metric 100") || strings.Count(table, "\n") != 2 {
		t.Errorf("after cleanup table 143 has\n%s", table)
	}
}

// TestRemovedVIPIsServedUntilRoutersKnow: a VIP that is removed is withdrawn at once and still served until
// announce.withdrawWait is over. reload --wait waits for that.
func TestRemovedVIPIsServedUntilRoutersKnow(t *testing.T) {
	const kept, gone, ports = "[services.kept]\nexternalIPs = [\"203.0.113.9\"]\n", "[services.gone]\nexternalIPs = [\"203.0.113.10\"]\n", "ports = [{ port = 80, targetPort = 7000 }]\nendpoints = " + allV4 + "\n"
	n := newNode(t, "")
	main := fmt.Sprintf(announcing, t.TempDir())
	must(t, n.Configure(main+"announce.withdrawWait = \"1h\"\n"))
	n.start(t, kept+ports+gone+ports)
	n.announces(t, "started", "203.0.113.9 100", "203.0.113.10 100")
	must(t, n.Serve(kept+ports))
	n.announces(t, "removed", "203.0.113.9 100")
	ask(t, n.Client, "tcp", "203.0.113.10:80")
	n.eventually(t, patience, "status gone", "203.0.113.10: not announced: removed: still served for 1h0m0s, until routers know")
	must(t, n.Serve(kept+ports+gone+ports))
	n.announces(t, "back", "203.0.113.9 100", "203.0.113.10 100")
	must(t, n.Configure(main+"announce.withdrawWait = \"1s\"\n"))
	must(t, n.Serve(kept+ports))
	n.order(t, 0, "reload --wait")
	n.announces(t, "removed again", "203.0.113.9 100")
	if local := n.tool(t, "ip", "route", "show", "table", "local", "proto", "143"); strings.Contains(local, "203.0.113.10") || !strings.Contains(local, "203.0.113.9 ") {
		t.Errorf("after reload --wait the node has the VIPs\n%s", local)
	}
}

// TestCrashLoopWithdraws: a svcproxy that crashes again and again withdraws its VIPs when it starts, and announces them
// after an orderly restart. The kernel goes on serving.
func TestCrashLoopWithdraws(t *testing.T) {
	n := newNode(t, "")
	must(t, n.Configure(fmt.Sprintf(announcing, t.TempDir())))
	n.start(t, "[services.web]\nexternalIPs = [\"203.0.113.9\"]\nports = [{ port = 80, targetPort = 7000 }]\nendpoints = "+allV4+"\n")
	n.announces(t, "started", "203.0.113.9 100")
	n.Kill()
	n.announces(t, "crashed", "203.0.113.9 100")
	record := filepath.Join(n.Dir, "run", "starts.json")
	text, err := os.ReadFile(record)
	must(t, err)
	if !strings.HasPrefix(string(text), `{"count":1,`) {
		t.Errorf("after one crash the record is %s", text)
	}
	now := time.Now().UTC()
	must(t, os.WriteFile(record, fmt.Appendf(nil, `{"count":5,"since":%q,"last":%q}`, now.Add(-2*time.Minute).Format(time.RFC3339), now.Format(time.RFC3339)), 0o644))
	must(t, n.Start())
	n.announces(t, "crashed again and again")
	must(t, lab.Eventually(patience, func() error { // withdrawn before the first sync
		_, err := n.Client.Ask("tcp", netip.MustParseAddrPort("203.0.113.9:80"))
		return err
	}))
	must(t, lab.Eventually(patience, func() error {
		status, _ := n.asks(t, "status")
		if !strings.Contains(status, "203.0.113.9 (web): not announced: svcproxy crashed: 6 starts since ") && time.Since(now) < 50*time.Second {
			return fmt.Errorf("status does not name the crashes:\n%s", status)
		}
		return nil
	}))
	must(t, n.Stop())
	must(t, n.Start())
	n.announces(t, "restarted", "203.0.113.9 100")
}

// TestVIPOfAnotherHostIsNotAnnounced: a VIP that another host on the link answers for is held back, also if this node
// had it and announced it before.
func TestVIPOfAnotherHostIsNotAnnounced(t *testing.T) {
	n := newNode(t, "")
	must(t, n.Configure(fmt.Sprintf(announcing, t.TempDir())))
	n.take(t, "add")
	must(t, n.Serve(onTheLink+clusterIP("other", "10.96.0.20", allV4)))
	must(t, n.Start())
	n.eventually(t, patience, "status", "192.0.2.80 (web): not announced: not taken over: another host, ", "2001:db8::80 (web): not announced: not taken over")
	if a := n.explain(t, "192.0.2.80:80", "--from", "192.0.2.77", "--in", "uplink"); !strings.HasPrefix(a.Sentence, "not served: 192.0.2.80 is not on this node: another host, ") {
		t.Errorf("explain: %s", a.Sentence)
	}
	n.announces(t, "another host has the VIPs")
	n.take(t, "del")
	n.announces(t, "it gave them up", "2001:db8::80 100", "192.0.2.80 100")

	must(t, n.Stop())
	must(t, n.Lab.Node.IP("route del local 192.0.2.80 table local proto 143"))
	n.take(t, "add")
	n.announces(t, "stopped", "2001:db8::80 100", "192.0.2.80 100")
	must(t, n.Start())
	n.announces(t, "another host has the VIP that the node lost", "2001:db8::80 100")
	n.eventually(t, patience, "status", "192.0.2.80 (web): not announced: not taken over: another host, ")
}
