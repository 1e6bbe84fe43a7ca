package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// eachSecond has svcproxy look at the whole kernel often enough for a test.
const eachSecond = "ipvs.syncPeriod = \"1s\"\n"

// healed waits until the kernel is again as in the reading.
func (n node) healed(t *testing.T, want lab.Reading) {
	t.Helper()
	if err := lab.Eventually(patience, func() error {
		have, err := n.Lab.Node.Read()
		if err != nil {
			return err
		}
		if diff := lab.Diff(want, have); diff != "" {
			return fmt.Errorf("wanted and found:\n%s", head(diff))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// drift removes something that a full check finds and repairs.
func (n node) drift(t *testing.T) {
	t.Helper()
	switch mode := modeOf(t); {
	case mode == "nftables" || native():
		n.tool(t, "nft", "flush", "set", "ip", "svcproxy", "KUBE-IPVS-IPS")
	case mode == "ipvs":
		n.tool(t, "ipset", "flush", "KUBE-IPVS-IPS")
	default:
		n.tool(t, "iptables", "-t", "nat", "-F", "KUBE-SERVICES")
	}
}

func TestDriftByHandHeals(t *testing.T) {
	n := newLonelyNode(t, eachSecond)
	n.plantForeign(t)
	n.start(t, web+services(5, `["10.5.0.1"]`))
	if native() {
		n.heals(t, nativeDrift)
		n.heals(t, driftOfVIPs)
		return
	}
	n.heals(t, []drift{
		{"all our sets emptied", `for s in $(ipset list -n | grep KUBE); do ipset flush $s; done`},
		{"a virtual server deleted", `ipvsadm -D -t 10.96.0.20:80`},
		{"a real server added, one changed, one deleted", `ipvsadm -a -t 10.96.0.20:80 -r 10.9.9.9:7000 -m
			ipvsadm -e -t 10.96.0.20:80 -r 10.2.1.10:7000 -m -w 9; ipvsadm -d -t 10.96.0.20:80 -r 10.2.2.10:7000`},
		{"a scheduler changed", `ipvsadm -E -u 10.96.0.20:80 -s sh -p 50`},
		{"a set destroyed", `iptables -D KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j RETURN; ipset destroy KUBE-LOAD-BALANCER-FW || true`},
		{"our chains emptied", `iptables -t nat -F KUBE-SERVICES; ip6tables -F KUBE-IPVS-FILTER`},
		{"our jumps removed", `iptables -t nat -F OUTPUT; ip6tables -t nat -F POSTROUTING`},
	})
	n.heals(t, driftOfVIPs)
}

// drift is a change by hand.
type drift struct{ name, script string }

// driftOfVIPs is of what every mode has, on a kernel with dummy devices.
var driftOfVIPs = []drift{
	{"a VIP removed", `ip addr del 10.96.0.20/32 dev kube-ipvs0`},
	{"an IPv6 VIP removed", `ip addr del fd00:96::20/128 dev kube-ipvs0`},
	{"the device removed", `ip link del kube-ipvs0`},
}

// heals wants the kernel to be the same again after each drift.
func (n node) heals(t *testing.T, drifts []drift) {
	t.Helper()
	whole := n.read(t)
	for _, d := range drifts {
		t.Run(d.name, func(t *testing.T) {
			n.tool(t, "sh", "-ec", d.script)
			n.healed(t, whole)
		})
	}
}

// Nothing here waits for a full check, which is 30 s away: the kernel tells what
// becomes of our device.
func TestOurDeviceIsHealedAtOnce(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "")
	n.start(t, web)
	whole := n.read(t)
	for _, drift := range []struct{ name, script string }{
		{"renamed", `ip link set kube-ipvs0 name lost0`},
		{"moved", `ip netns add away; ip link set kube-ipvs0 netns away; ip netns del away`},
		{"set up and down", `ip link set kube-ipvs0 up; ip link set kube-ipvs0 down`},
		{"deleted", `ip link del kube-ipvs0`},
	} {
		t.Run(drift.name, func(t *testing.T) {
			n.tool(t, "sh", "-ec", drift.script)
			begin := time.Now()
			n.healed(t, whole)
			if took := time.Since(begin); took > generous {
				t.Errorf("healed after %v", took)
			}
			wantEach(t, n.Client, "tcp", "10.96.0.20:80")
			if out, code, err := n.Command("plan"); err != nil || code != 0 || !strings.Contains(out, "nothing to do") {
				t.Errorf("plan: %v, exit code %d\n%s", err, code, out)
			}
		})
	}
	n.Kill()
	n.tool(t, "ip", "link", "set", "kube-ipvs0", "name", "lost0")
	must(t, n.Start())
	n.healed(t, whole)
}

// ipvsadm -C is for everybody's virtual servers; ours come back with traffic.
func TestIPVSClearedByHandServesAgain(t *testing.T) {
	n := newNode(t, eachSecond)
	n.start(t, web)
	whole := n.read(t)
	n.tool(t, "ipvsadm", "-C")
	n.healed(t, whole)
	wantEach(t, n.Client, "tcp", "10.96.0.20:80")
}

// The same port number on another address does not matter.
func TestForeignVirtualServerOnANodePortsNumberStays(t *testing.T) {
	n := newLonelyNode(t, eachSecond)
	const theirs = "203.0.113.50:30080"
	n.feed(t, "-A -t "+theirs+" -s lc\n-a -t "+theirs+" -r 10.9.9.9:9 -m -w 5\n", "ipvsadm", "-R")
	empty := n.read(t)
	n.start(t, web)
	n.serve(t, web+clusterIP("more", "10.96.0.21", allV4))
	n.serve(t, clusterIP("more", "10.96.0.21", allV4))
	ours := func(line string) bool { return strings.Contains(line, "203.0.113.50") }
	if diff := lab.Diff(empty.Keep(ours), n.read(t).Keep(ours)); diff != "" {
		t.Errorf("before and after:\n%s", diff)
	}
}

func TestForeignVirtualServerOnAWantedAddressIsAConflict(t *testing.T) {
	n := newNode(t, eachSecond)
	const taken = "10.96.0.20:80"
	theirs := []string{"-A -t " + taken + " -s sh", "-a -t " + taken + " -r 10.9.9.9:9 -m -w 5"}
	n.feed(t, strings.Join(theirs, "\n")+"\n", "ipvsadm", "-R")
	n.start(t, clusterIP("web", "10.96.0.20", allV4)+clusterIP("other", "10.96.0.21", allV4))
	if !strings.Contains(n.Log.String(), "not taken over") || !strings.Contains(n.Log.String(), taken) {
		t.Errorf("no word about the conflict over %s", taken)
	}
	have := n.read(t)
	for _, line := range theirs {
		if !slices.Contains(have.Virtuals, line) {
			t.Errorf("%q is gone from %q", line, have.Virtuals)
		}
	}
	for _, line := range have.Sets {
		if strings.Contains(line, "10.96.0.20,tcp:80") {
			t.Errorf("an entry for what is not ours: %s", line)
		}
	}
	wantEach(t, n.Client, "tcp", "10.96.0.21:80")

	// When they let go, it is served.
	mark := n.Log.Len()
	n.tool(t, "ipvsadm", "-D", "-t", taken)
	n.synced(t, mark)
	wantEach(t, n.Client, "tcp", taken)
}

// Nothing here waits for a full check, which is 30 s away: the kernel tells.
func TestNodePortsFollowTheNodesAddresses(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web)
	whole := n.read(t)
	const another = "192.0.2.3"
	mark, begin := n.Log.Len(), time.Now()
	must(t, n.Lab.Node.IP("addr add "+another+"/24 dev uplink"))
	n.synced(t, mark)
	took := time.Since(begin)
	t.Logf("node ports on a new address after %v", took)
	if took > 20*time.Second {
		t.Errorf("node ports on a new address only after %v", took)
	}
	wantEach(t, n.Client, "tcp", another+":30080")
	wantEach(t, n.Client, "udp", another+":30080")
	must(t, n.Lab.Node.IP("addr del "+another+"/24 dev uplink"))
	n.healed(t, whole)
	wantEach(t, n.Client, "tcp", "192.0.2.1:30080")
}

func TestChangedNamePrefixIsRefused(t *testing.T) {
	n := newLonelyNode(t, "")
	n.start(t, web)
	must(t, n.Stop())
	whole := n.read(t)
	must(t, n.Configure(`ipvs.namePrefix = "EDGE"`))
	mark := n.Log.Len()
	must(t, n.Start())
	wantExit(t, n, 3)
	if said := n.Log.String()[mark:]; !strings.Contains(said, "cleanup") || !strings.Contains(said, "KUBE") {
		t.Errorf("the refusal does not name the cleanup to run: %s", said)
	}
	if diff := lab.Diff(whole, n.read(t)); diff != "" {
		t.Errorf("the refused start changed the kernel:\n%s", diff)
	}
}

// A device of the configured name that another program made: its addresses are not
// ours to remove, at a start, by plan or by cleanup.
func TestForeignDeviceIsRefused(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newLonelyNode(t, `ipvs.deviceName = "edge0"`)
	must(t, n.Lab.Node.IP("link add edge0 type dummy", "addr add 198.51.100.9/32 dev edge0"))
	before := n.read(t)
	must(t, n.Serve(web))
	must(t, n.Start())
	wantExit(t, n, 3)
	for _, command := range []string{"plan", "cleanup"} {
		if out, code, err := n.Command(command); err != nil || code != 3 || !strings.Contains(out, "ip link del edge0") {
			t.Errorf("%s: %v, exit code %d\n%s", command, err, code, out)
		}
	}
	if diff := lab.Diff(before, n.read(t)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	must(t, n.Lab.Node.IP("addr del 198.51.100.9/32 dev edge0"))
	n.start(t, web) // an empty one is as good as ours
	must(t, n.Stop())
	mark := n.Log.Len()
	must(t, n.Serve(web+clusterIP("more", "10.96.0.21", allV4)))
	must(t, n.Start())
	n.synced(t, mark)
}

func wantExit(t *testing.T, n node, code int) {
	t.Helper()
	select {
	case <-n.Ended():
	case <-time.After(time.Minute):
		t.Fatal("svcproxy is still running")
	}
	if n.ExitCode() != code {
		t.Errorf("exit code %d, want %d", n.ExitCode(), code)
	}
}

// testdata/kube-proxy is what kube-proxy 1.34 leaves for this service: its 17
// sets in each family, its rules, its virtual servers.
func TestKubeProxysNodeIsTakenOverWithoutTouchingIPVS(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("strace"))
	n := newNode(t, "")
	for tool, args := range map[string][]string{"ipset": {"restore"}, "ipvsadm": {"-R"}} {
		n.feed(t, leftover(t, tool), tool, args...)
	}
	n.feed(t, leftover(t, "iptables"), "iptables-restore")
	n.feed(t, leftover(t, "ip6tables"), "ip6tables-restore")
	must(t, n.Lab.Node.IP("link add kube-ipvs0 type dummy", "addr add 10.96.0.20/32 dev kube-ipvs0"))
	before := n.read(t)

	must(t, n.Serve(`
[services.web]
type = "NodePort"
clusterIP = "10.96.0.20"
ports = [{ port = 80, targetPort = 7000, nodePort = 30080 }]
endpoints = ["10.2.1.10", "10.2.2.10"]
`))
	must(t, n.StartTraced())
	n.synced(t, 0)
	trace, err := n.Trace()
	must(t, err)
	for _, w := range trace.Writes() {
		if strings.HasPrefix(w.Type, "IPVS ") || strings.HasPrefix(w.Type, "IP_VS_") {
			t.Errorf("IPVS was written to: %s", w.Type)
		}
	}
	after := n.read(t)
	if !slices.Equal(before.Virtuals, after.Virtuals) {
		t.Errorf("virtual servers before and after:\n%s", lab.Diff(lab.Reading{Virtuals: before.Virtuals}, lab.Reading{Virtuals: after.Virtuals}))
	}
	wantOwned(t, after)
	ask(t, n.Client, "tcp", "10.96.0.20:80")
	ask(t, n.Client, "tcp", "192.0.2.1:30080")

	// What was kube-proxy's is ours to take away.
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	for _, line := range n.read(t).Lines() {
		if strings.Contains(line, "KUBE-") && !strings.Contains(line, "KUBE-PROXY-CANARY") || strings.HasPrefix(line, "-A -t") || strings.Contains(line, "kube-ipvs0") {
			t.Errorf("left by cleanup: %s", line)
		}
	}
}

func leftover(t *testing.T, tool string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "kube-proxy", tool))
	must(t, err)
	return string(text)
}

// A network namespace has one svcproxy, whatever directories and names the second
// has been given. plan changes nothing, and works while svcproxy runs.
func TestOneSvcproxyPerNode(t *testing.T) {
	n := newLonelyNode(t, "")
	n.start(t, web)
	whole := n.read(t)
	for what, main := range map[string]string{"the same names": "", "other names": "ipvs = { namePrefix = \"EDGE\", deviceName = \"edge0\" }"} {
		t.Run(what, func(t *testing.T) {
			second, err := lab.NewProxy(n.Lab.Node, n.Binary, t.TempDir(), main)
			must(t, err)
			second.Mode = n.Mode
			must(t, second.Configure(main))
			must(t, second.Serve(""))
			pid := fmt.Sprintf("already running in this network namespace (pid %d)", n.Pid())
			for _, command := range []string{"run", "cleanup"} {
				if out, code, err := second.Command(command); err != nil || code != 1 || !strings.Contains(out, pid) {
					t.Errorf("%s: %v, exit code %d\n%s", command, err, code, out)
				}
			}
			for _, args := range [][]string{{"plan"}, {"cleanup", "--dry-run"}} {
				if out, code, err := second.Command(args[0], args[1:]...); err != nil || code != 0 {
					t.Errorf("%s: %v, exit code %d\n%s", args, err, code, out)
				}
			}
			if diff := lab.Diff(whole, n.read(t)); diff != "" {
				t.Errorf("the second changed the kernel:\n%s", diff)
			}
		})
	}
	must(t, n.Stop())
	must(t, n.Start())
	if _, err := n.Wait(0, "starting"); err != nil {
		t.Error(err)
	}
}

func TestCleanupLeavesWhatIsForeign(t *testing.T) {
	n := newLonelyNode(t, "")
	n.plantForeign(t)
	const forwarding = "net.ipv4.ip_forward"
	before, sysctl := n.read(t), n.tool(t, "sysctl", forwarding)
	n.start(t, web+services(50, `["10.5.0.1"]`))
	must(t, n.Stop())
	loaded := n.read(t)
	if out, code, err := n.Command("cleanup", "--dry-run"); err != nil || code != 0 || !strings.Contains(out, "10.96.0.20") {
		t.Errorf("cleanup --dry-run: %v, exit code %d\n%s", err, code, out)
	}
	if diff := lab.Diff(loaded, n.read(t)); diff != "" {
		t.Errorf("cleanup --dry-run changed the kernel:\n%s", diff)
	}
	for range 2 { // the second finds nothing to do
		n.cleanUp(t, before)
	}
	if now := n.tool(t, "sysctl", forwarding); now != sysctl {
		t.Errorf("before: %s after cleanup: %s", sysctl, now)
	}
}
