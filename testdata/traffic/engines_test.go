package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/testdata/lab"
)

// example is a configuration as the packages ship it.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../packaging/docs/examples", name))
	must(t, err)
	return path
}

// runs starts a daemon on a host, and ends it with the test.
func runs(t *testing.T, on *lab.Host, name string, args ...string) *lab.Log {
	t.Helper()
	cmd, log := exec.Command(name, args...), new(lab.Log)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, on.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s on %s:\n%s", name, on.Name, log.String())
		}
	})
	return log
}

// routerConfig is BIRD on the client, as the router of the VIPs: it obeys GRACEFUL_SHUTDOWN.
const routerConfig = `
log stderr all;
router id 192.0.2.2;
protocol device { }
protocol kernel { ipv4 { export all; }; }
protocol kernel { ipv6 { export all; }; }
filter vips {
	if (65535, 0) ~ bgp_community then bgp_local_pref = 0;
	accept;
}
protocol bgp node4 {
	local 192.0.2.2 as 65000; neighbor 192.0.2.1 as 65001;
	ipv4 { import filter vips; export none; };
}
protocol bgp node6 {
	local 2001:db8::2 as 65000; neighbor 2001:db8::1 as 65001;
	ipv6 { import filter vips; export none; };
}
`

// router is the client with a BIRD that learns VIPs.
type router struct {
	node
	socket string
}

func (n node) router(t *testing.T) router {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "bird.conf")
	must(t, os.WriteFile(file, []byte(routerConfig), 0o644))
	r := router{n, filepath.Join(dir, "ctl")}
	runs(t, n.Client, "bird", "-f", "-c", file, "-s", r.socket, "-P", filepath.Join(dir, "pid"))
	return r
}

// learns waits until the router has routes to these VIPs by the node and to no others, with this
// preference. 0 is what GRACEFUL_SHUTDOWN asks for, 100 the default.
func (r router) learns(t *testing.T, when string, preference int, want ...string) time.Duration {
	t.Helper()
	began := time.Now()
	if err := lab.Eventually(patience, func() error {
		var have []string
		for _, family := range []string{"-6", "-4"} {
			out, err := r.Client.Run("ip", family, "route", "show", "proto", "bird")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				have = append(have, strings.Fields(line)[0])
			}
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("the router has routes to %q, want %q", have, want)
		}
		out, err := r.Client.Run("birdc", "-s", r.socket, "show", "route", "all")
		if err != nil {
			return err
		}
		if n := strings.Count(out, fmt.Sprintf("BGP.local_pref: %d\n", preference)); n != len(want) {
			return fmt.Errorf("%d routes have preference %d, want %d:\n%s", n, preference, len(want), out)
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	return time.Since(began).Round(time.Millisecond)
}

// learned are the VIPs of announcedWeb, as the router has them.
var learned = []string{"2001:db8:80::80", "198.51.100.80", "203.0.113.9"}

// isAnnounced has a routing daemon, which start starts, on the node announce VIPs to a router: they appear there, go when
// no endpoint is up, come back, get another preference by a drain and are withdrawn after it.
func (n node) isAnnounced(t *testing.T, more string, start func()) {
	main := fmt.Sprintf(announcing, t.TempDir()) + more
	must(t, n.Configure(main))
	must(t, n.Lab.Node.IP("route add unreachable 203.0.113.99 table 144 proto static")) // of another table
	ports := n.openPorts(t, 7100, lines)
	r := n.router(t)
	start()
	before := n.withRoutesOfOthers(t)
	n.start(t, announcedWeb)
	t.Logf("announced after %s", r.learns(t, "started", 100, learned...))
	ask(t, n.Client, "tcp", "198.51.100.80:80")
	n.announcesInTime(t, r, ports)
	for _, p := range ports {
		must(t, p.Open())
	}
	t.Logf("announced again after %s", r.learns(t, "up", 100, learned...))
	n.order(t, 0, "node drain")
	t.Logf("drained: preference 0 after %s", r.learns(t, "drained", 0, learned...))
	must(t, n.Configure(withdrawing(main)))
	r.learns(t, "drained for longer than drainTime", 100)
	n.order(t, 0, "node undrain")
	r.learns(t, "undrained", 100, learned...)
	must(t, n.Stop())
	r.learns(t, "stopped", 100, learned...)
	n.order(t, 0, "announce withdraw", "withdrawn: 198.51.100.80")
	r.learns(t, "withdrawn by command", 100)
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Fatalf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if after := n.routing(t); !slices.Equal(after, before) {
		t.Errorf("routes, rules and addresses before the start:\n%s\nafter cleanup:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// withRoutesOfOthers adds what routing daemons and keepalived have in a kernel, and returns routing.
func (n node) withRoutesOfOthers(t *testing.T) []string {
	t.Helper()
	must(t, n.Lab.Node.IP(
		"route add unreachable 203.0.113.98 table 144 proto bird", "route add unreachable 203.0.113.97 table 144 proto zebra",
		"route add unreachable 2001:db8:80::96 table 144 proto bgp",
		"rule add from 203.0.113.0/28 lookup 144 pref 900 protocol zebra", "addr add 203.0.113.95/32 dev lo label lo:vrrp"))
	return n.routing(t)
}

// routing lists the node's routes in all tables, its rules and its addresses, without "linkdown": the kernel notices a
// new link's carrier a little later.
func (n node) routing(t *testing.T) (all []string) {
	t.Helper()
	for _, family := range []string{"-4", "-6"} {
		for _, what := range []string{"route show table all", "rule show", "-o addr show"} {
			out := n.tool(t, "ip", append([]string{family}, strings.Fields(what)...)...)
			all = append(all, strings.Split(strings.ReplaceAll(out, " linkdown", ""), "\n")...)
		}
	}
	slices.Sort(all)
	return all
}

// announcesInTime adds a VIP, which clients reach through the router within 2 s, removes it, and takes all endpoints
// down: the others are withdrawn within a second after the checks can know.
func (n node) announcesInTime(t *testing.T, r router, ports []*lab.Port) {
	t.Helper()
	slow := time.Duration(1)
	if emulated() {
		slow = 5
	}
	took := stopwatch(t)
	n.serve(t, announcedWeb+"[services.late]\nvips = [\"203.0.113.20\"]\nport = 80\nkeepClientAddress = false\nbackends = [\"10.2.1.10:7000\"]\n")
	r.learns(t, "a new VIP", 100, append(slices.Clone(learned), "203.0.113.20")...)
	ask(t, n.Client, "tcp", "203.0.113.20:80")
	took("a new VIP answers", slow*2*time.Second)
	n.serve(t, announcedWeb)
	r.learns(t, "a VIP removed", 100, learned...)
	const tries = 3 // a routing daemon on a busy machine once needed a second more
	for try := range tries {
		began := time.Now()
		for _, p := range ports {
			must(t, p.Close())
		}
		r.learns(t, "down", 100)
		most := slow * (detection + time.Second)
		if time.Since(began) <= most {
			return
		}
		t.Logf("all endpoints down: withdrawn after %v, want at most %v", time.Since(began), most)
		if try < tries-1 {
			for _, p := range ports {
				must(t, p.Open())
			}
			r.learns(t, "up", 100, learned...)
		}
	}
	t.Errorf("all endpoints down: withdrawn late %d times", tries)
}

// TestBIRDAnnouncesVIPs: BIRD 2 with the configuration that the packages ship.
func TestBIRDAnnouncesVIPs(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("bird"))
	n := newNode(t, "")
	n.isAnnounced(t, "", func() {
		dir := t.TempDir()
		runs(t, n.Lab.Node, "bird", "-f", "-c", example(t, "bird.conf"), "-s", filepath.Join(dir, "ctl"), "-P", filepath.Join(dir, "pid"))
	})
}

// ownDir makes a directory that belongs to a user, in which this user's daemon makes its sockets.
func ownDir(t *testing.T, name string) string {
	t.Helper()
	u, err := user.Lookup(name)
	must(t, err)
	uid, err := strconv.Atoi(u.Uid)
	must(t, err)
	gid, err := strconv.Atoi(u.Gid)
	must(t, err)
	dir, err := os.MkdirTemp("", name)
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chown(dir, uid, gid))
	return dir
}

// TestFRRAnnouncesVIPs: FRR with the configuration that the packages ship.
func TestFRRAnnouncesVIPs(t *testing.T) {
	const frr = "/usr/lib/frr/"
	kerneltest.Need(t, kerneltest.Tool(frr+"zebra"))
	n := newNode(t, "")
	n.isAnnounced(t, "announce.table = 0\n", func() {
		dir := ownDir(t, "frr")
		for _, daemon := range []string{"zebra", "bgpd", "bfdd"} {
			args := []string{"-f", "/dev/null", "-z", dir + "/zserv", "-i", dir + "/" + daemon + ".pid", "--vty_socket", dir, "--log", "stdout"}
			if daemon == "bfdd" {
				args = append(args, "--bfdctl", dir+"/bfdd.sock")
			}
			runs(t, n.Lab.Node, frr+daemon, args...)
			must(t, lab.Eventually(patience, func() error { _, err := os.Stat(dir + "/" + daemon + ".vty"); return err }))
		}
		n.tool(t, "vtysh", "--vty_socket", dir, "-f", example(t, "frr.conf"))
	})
}

// TestKeepalivedFollowsSvcproxy: keepalived with the configuration that the packages ship, but for the name of
// the interface and the file. The node is master while it can serve the VIP and is not drained, else its peer.
func TestKeepalivedFollowsSvcproxy(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("keepalived"))
	n := newNode(t, "")
	file := filepath.Join(t.TempDir(), "announced")
	must(t, n.Configure(fmt.Sprintf("health.massFailure = \"believe\"\nipvs.strictARP = true\nannounce.mode = \"vrrp\"\nannounce.holdUp = \"0s\"\nannounce.file = %q\n", file)))
	ports := n.openPorts(t, 7100, lines)
	n.start(t, "[services.web]\ntype = \"LoadBalancer\"\nloadBalancerIPs = [\""+vrrpVIP+"\"]\nports = [{ port = 80, targetPort = 7100 }]\nendpoints = "+allV4+
		"\nhealthCheck = { type = \"tcp\", "+patient+" }\n")
	text, err := os.ReadFile(example(t, "keepalived.conf"))
	must(t, err)
	shipped := strings.ReplaceAll(string(text), "/run/svcproxy/announced", file)
	n.keepalived(t, n.Lab.Node, strings.ReplaceAll(shipped, "interface eth0", "interface uplink"))
	n.vipOn(t, "alone", "uplink")
	peer, _, _ := strings.Cut(shipped, "track_file {")
	_, rest, _ := strings.Cut(shipped, "virtual_ipaddress")
	peer = strings.Replace(peer, "track_file svcproxy {", "track_file unused {", 1)
	n.keepalived(t, n.Client, strings.Replace(peer, "priority 250", "priority 245", 1)+"virtual_ipaddress"+rest)
	n.vipOn(t, "both serve", "uplink")
	n.hasVIPs(t, "VIPs here: 1 of 1 (uplink)", "check")
	for _, p := range ports {
		must(t, p.Close())
	}
	n.vipOn(t, "all endpoints are down")
	for _, p := range ports {
		must(t, p.Open())
	}
	n.vipOn(t, "they are up", "uplink")
	must(t, lab.Eventually(patience, func() error { // the client asks itself until its keepalived is backup
		_, err := n.Client.Ask("tcp", netip.MustParseAddrPort(vrrpVIP+":80"))
		return err
	}))
	n.hasVIPs(t, "VIPs here: 1 of 1 (uplink)")
	n.order(t, 0, "node drain --wait")
	n.vipOn(t, "drained")
	n.hasVIPs(t, "VIPs here: none (drained)")
	if a := n.explain(t, vrrpVIP+":80"); !strings.Contains(a.Sentence, "if another host sends its packets here, as keepalived has not given it to this node") {
		t.Errorf("explain: %s", a.Sentence)
	}
	n.order(t, 0, "node undrain")
	n.vipOn(t, "undrained", "uplink")
	n.hasVIPs(t, "VIPs here: 1 of 1 (uplink)")
}

// hasVIPs waits until status has a line about VIPs, and wants other commands to print no warning then.
func (n node) hasVIPs(t *testing.T, line string, quiet ...string) {
	t.Helper()
	must(t, lab.Eventually(patience, func() error {
		out, _, err := n.Command("status")
		if err == nil && !strings.Contains(out, line+"\n") {
			err = fmt.Errorf("status does not say %q:\n%s", line, out)
		}
		return err
	}))
	for _, command := range quiet {
		if out, _, err := n.Command(command); err != nil || strings.Contains(out, "VIP") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// keepalived starts keepalived on a host.
func (n node) keepalived(t *testing.T, on *lab.Host, config string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keepalived.conf")
	must(t, os.WriteFile(file, []byte(config), 0o644))
	runs(t, on, "keepalived", keepalivedArgs(file, "--vrrp")...)
}
