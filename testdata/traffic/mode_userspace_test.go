package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

const modeUserspace = "mode = \"userspace\"\niptables.syncPeriod = \"2s\"\niptables.minSyncPeriod = \"0s\"\nudpIdleTimeout = \"2s\"\n"

// newRelayNode prepares a node whose kernel needs neither IPVS nor iptables.
func newRelayNode(t *testing.T, main string) node {
	t.Helper()
	kerneltest.Need(t, kerneltest.Root)
	kerneltest.Need(t, kerneltest.Tool("ip"))
	return prepare(t, lab.New, main)
}

// hiding hides programs from a process: their files are empty for it, in each folder of
// PATH.
func hiding(t *testing.T, tools ...string) []string {
	t.Helper()
	var hide strings.Builder
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		for _, name := range tools {
			path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
			if err == nil && !strings.Contains(hide.String(), strconv.Quote(path)) {
				fmt.Fprintf(&hide, "mount --bind /dev/null %q && ", path)
			}
		}
	}
	return []string{"unshare", "--mount", "sh", "-c", hide.String() + `exec "$0" "$@"`}
}

// In mode userspace svcproxy relays connections itself. It needs addresses and sockets alone, writes nothing at a
// restart, and cleanup leaves nothing.
func TestModeUserspace(t *testing.T) {
	n := newRelayNode(t, modeUserspace)
	before := n.addresses(t)
	must(t, n.Serve(web))
	mark := n.Log.Len()
	wrap := hiding(t, "iptables", "ip6tables")
	must(t, n.Start(wrap...))
	n.synced(t, mark)
	if _, err := n.Wait(0, `msg="Using userspace Proxier\."`); err != nil {
		t.Error(err)
	}
	n.wantWeb(t, "at the start")
	for _, to := range []string{"192.0.2.1:30080", "[2001:db8::1]:30080"} {
		for _, network := range []string{"tcp", "udp"} {
			if a, err := n.Client.Ask(network, netip.MustParseAddrPort(to)); err != nil || a.Backend == "" {
				t.Errorf("node port %s over %s: %v, %v", to, network, a, err)
			}
		}
	}
	if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("plan: exit code %d, %v\n%s", code, err, out)
	}
	served := n.addresses(t)
	must(t, n.Stop())
	if now := n.addresses(t); now != served {
		t.Errorf("a stop changed the addresses\n%s\nto\n%s", served, now)
	}
	must(t, n.Start(wrap...))
	must(t, lab.Eventually(patience, func() error {
		_, err := n.Client.Ask("tcp", netip.MustParseAddrPort("10.96.0.20:80"))
		return err
	}))
	n.wantWeb(t, "after a restart")

	held := n.chat(t, "10.96.0.20:80", "pod1")
	n.serve(t, strings.ReplaceAll(web, `"10.2.1.10", `, ""))
	for range 12 {
		if a := ask(t, n.Client, "tcp", "10.96.0.20:80"); a.Backend == "pod1" {
			t.Error("a new connection went to an endpoint that is gone")
		}
	}
	held.wantAlive(t)
	held.Close()

	mark = n.Log.Len()
	if strings.Contains(served, "kube-ipvs0") {
		must(t, n.Lab.Node.IP("addr del 10.96.0.20/32 dev kube-ipvs0"))
	} else { // a kernel without dummy devices
		must(t, n.Lab.Node.IP("route del local 10.96.0.20 dev lo table local proto 143"))
	}
	n.synced(t, mark)
	n.wantAnswer(t, "10.96.0.20:80")

	must(t, n.Stop())
	out, code, err := n.Command("cleanup")
	if err != nil || code != 0 {
		t.Fatalf("cleanup: exit code %d, %v\n%s", code, err, out)
	}
	if now := n.addresses(t); now != before {
		t.Errorf("cleanup left\n%s\nbefore there was\n%s", now, before)
	}
}

// addresses are those of svcproxy's device, and its routes.
func (n node) addresses(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(n.tool(t, "ip", "-br", "addr")) {
		if strings.HasPrefix(line, "kube-ipvs0") {
			all.WriteString(line)
		}
	}
	for _, family := range []string{"-4", "-6"} {
		all.WriteString(n.tool(t, "ip", family, "route", "show", "table", "local", "proto", "143"))
	}
	return all.String()
}

// wantAnswer wants a TCP connection to be served.
func (n node) wantAnswer(t *testing.T, to string) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		_, err := n.Client.Ask("tcp", netip.MustParseAddrPort(to))
		return err
	}))
}

// A change to mode userspace refuses no new connection: IPVS or rules serve until the relay listens. Established
// connections may end: IPVS forgets them with its virtual servers, and without a rule that needs it the kernel no longer
// tracks connections. So each client may lose the question that is under way at each of the two. A change from mode
// userspace ends the relay's connections with its process. New ones are refused while no process runs.
// svcproxy-concepts(7) has the counts of connections that each change ends.
func TestChangeToUserspace(t *testing.T) {
	kerneltest.Need(t, kerneltest.IPVS, kerneltest.Dummy)
	const quick = "mode = \"ipvs\"\nipvs.syncPeriod = \"2s\"\n"
	n := newNode(t, quick)
	n.start(t, web)
	var refused atomic.Int64
	load := newLoad(t)
	const clients = 2
	for _, to := range [clients]string{"10.96.0.20:80", "[fd00:96::20]:80"} {
		addr := netip.MustParseAddrPort(to)
		load.add(to, func() error {
			if _, err := n.Client.Ask("tcp", addr); err != nil {
				refused.Add(1)
			}
			return nil
		})
	}
	for _, change := range []struct {
		from, main string
		refuses    bool // while no process runs
	}{
		{"ipvs", modeUserspace, false},
		{"userspace", modeIPTables, true},
		{"iptables", modeUserspace, false},
		{"userspace", quick, true},
	} {
		to := strings.SplitN(change.main, "\"", 3)[1]
		held := n.holdMany(t)
		before, mark := refused.Load(), n.Log.Len()
		n.restart(t, change.main)
		n.synced(t, mark)
		load.goOn(t, 20)
		questions, ended := refused.Load()-before, unanswered(held)
		t.Logf("%s to %s: %d questions of new connections lost, and %d of %d connections", change.from, to, questions, ended, len(held))
		if questions > 2*clients && !change.refuses {
			t.Errorf("%s to %s: %d questions were lost by %d clients", change.from, to, questions, clients)
		}
		if change.from == "userspace" && ended < len(held) {
			t.Errorf("%s to %s: %d connections outlived the relay", change.from, to, len(held)-ended)
		}
		if out := n.tool(t, "ipvsadm", "-Ln"); strings.Contains(out, "10.96.0.20") != (to == "ipvs") {
			t.Errorf("IPVS in mode %s:\n%s", to, out)
		}
		n.wantWeb(t, "in mode "+to)
	}
	load.wantServed(t)
}
