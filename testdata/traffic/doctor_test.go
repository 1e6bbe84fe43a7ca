package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// examined is what a test reads of `svcproxy doctor -o json`.
type examined struct {
	Findings  []struct{ Check, Text string }
	Unchecked []struct{ What, Why string }
}

// doctor asks svcproxy on the node what is wrong, and wants the exit code that belongs to the answer.
func (n node) doctor(t *testing.T, args ...string) (a examined) {
	t.Helper()
	out, code, err := n.Command("doctor", append([]string{"-o", "json"}, args...)...)
	must(t, err)
	if end := strings.LastIndex(out, "}"); end >= 0 {
		out = out[strings.Index(out, "{") : end+1]
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("doctor: %v\n%s", err, out)
	}
	if want := map[bool]int{false: 0, true: 7}[len(a.Findings) > 0]; code != want {
		t.Errorf("doctor: exit code %d, want %d:\n%s", code, want, out)
	}
	return a
}

// healthy wants doctor to find nothing on the node, and to have checked everything. Only the guest is known to be
// healthy itself.
func (n node) healthy(t *testing.T) {
	t.Helper()
	if !emulated() {
		return
	}
	if a := n.doctor(t); len(a.Findings) > 0 || len(a.Unchecked) > 0 {
		t.Errorf("a healthy node: %+v", a)
	}
}

// A nodeFault makes the node fail in one way.
type nodeFault struct {
	name, check, text string
	come, gone        func()
	args              []string
	more              bool // other checks see its consequences
	heals             bool // svcproxy mends it when it next looks
	stands            bool // svcproxy reports it for some time after it is gone
	foreign           bool // it is in iptables-legacy, which svcproxy does not use
}

// Doctor names each fault first, says nothing else, and says nothing of a node without faults.
func TestDoctorNamesFaults(t *testing.T) {
	n := newNode(t, "ipvs.syncPeriod = \"1h\"\nsources.file.watch = false\n")
	inGuest(t, "writes below /etc")
	state := filepath.Join(n.Dir, "state")
	must(t, os.MkdirAll(state, 0o755))
	run(t, "mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", state)
	t.Cleanup(func() {
		n.Kill()
		run(t, "umount", state)
	})
	certificate := n.startWithCertificate(t)
	n.healthy(t)
	for _, f := range append(slices.Concat(n.networkFaults(t), n.objectFaults(t), n.otherFaults(t, state)), certificate) {
		t.Run(f.name, func(t *testing.T) {
			if version, err := n.Lab.Node.Run("iptables", "-V"); err != nil || f.foreign && strings.Contains(version, "legacy") {
				t.Logf("%v: svcproxy's own rules accept there", err)
				return
			}
			var a examined
			for range 3 {
				f.come()
				a = n.doctor(t, f.args...)
				f.gone()
				if !f.heals || len(a.Findings) > 0 && a.Findings[0].Check == f.check {
					break
				} // else svcproxy looked meanwhile
			}
			if len(a.Findings) == 0 || a.Findings[0].Check != f.check || !strings.Contains(a.Findings[0].Text, f.text) || len(a.Findings) > 1 && !f.more {
				t.Errorf("want %s first, with %q, and nothing else: %+v", f.check, f.text, a)
			}
			if f.stands {
				must(t, lab.Eventually(patience, func() error {
					if a := n.doctor(t); len(a.Findings) > 0 {
						return fmt.Errorf("%s is gone: %+v", f.name, a)
					}
					return nil
				}))
			}
		})
	}
	n.healthy(t)
	n.asUser(t)
	n.reports(t)
	t.Run("stopped", func(t *testing.T) {
		must(t, n.Stop())
		if a := n.doctor(t); len(a.Findings) != 1 || a.Findings[0].Check != "daemon" {
			t.Errorf("svcproxy is stopped: %+v", a)
		}
	})
}

// run runs a program in the guest's own network namespace.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v: %s", name, args, err, out)
	}
}

// startWithCertificate serves web on a VIP of the clients' link, a tunnel, and a service with a TLS check.
// It returns the fault of its certificate.
func (n node) startWithCertificate(t *testing.T) nodeFault {
	t.Helper()
	authority, err := lab.NewAuthority()
	must(t, err)
	serve := func(ends time.Duration) func(net.Conn) {
		cert, err := authority.Certificate("web", ends)
		must(t, err)
		return lab.Secure(cert, n.Backends[1].Web(200, 0))
	}
	port, err := n.Backends[1].OpenPort(7443, serve(240*time.Hour))
	must(t, err)
	n.start(t, onTheLink+clusterIP("one", "10.96.0.30", `["10.2.1.10"]`)+doctored)
	until := func(days string) {
		must(t, lab.Eventually(patience, func() error {
			out, _, err := n.Command("health", "tls", "-o", "json")
			if err == nil && !strings.Contains(out, `"certificateDays": `+days) {
				err = fmt.Errorf("%s", out)
			}
			return err
		}))
	}
	until("9")
	return nodeFault{
		name: "certificate", check: "certificates", text: "expired: 10.2.2.10:7443 of tls",
		come: func() { port.Serve(serve(-time.Hour)); until("-1") }, gone: func() { port.Serve(serve(240 * time.Hour)); until("9") },
	}
}

// doctored has a check with a high fall: some faults drop its answers, too, for the seconds in which a slow machine finds them.
const doctored = `[services.tls]
clusterIP = "10.96.0.31"
ports = [{ port = 443, targetPort = 7443 }]
endpoints = ["10.2.2.10"]
healthCheck = { type = "https", interval = "1s", fall = 20, path = "/?key=hunter2", headers = { Authorization = "Bearer hunter2" } }
[services.tunnel]
clusterIP = "10.96.0.32"
ports = [{ port = 7000 }]
endpoints = ["10.2.3.10"]
forward = "ipip"
`

// networkFaults are those of the node's network.
func (n node) networkFaults(t *testing.T) []nodeFault {
	tool := func(words string) func() {
		return func() { f := strings.Fields(words); n.tool(t, f[0], f[1:]...) }
	}
	gate := func() {
		n.feed(t, "table inet fw { chain gate { type filter hook input priority 0; policy drop; iifname { lo, pod1, pod2, pod3 } accept; tcp dport 22 accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; ip protocol icmp accept; ct state established accept; }; }\n", "nft", "-f", "-")
	}
	var limit string
	flood, calm := n.strayPackets(t)
	return []nodeFault{
		{name: "no forwarding", check: "forwarding", text: "net.ipv4.ip_forward is 0", come: tool("sysctl -qw net.ipv4.ip_forward=0"), gone: tool("sysctl -qw net.ipv4.ip_forward=1"), more: true},
		{name: "a link does not forward", check: "forwarding", text: "what comes in by pod1", come: tool("sysctl -qw net.ipv4.conf.pod1.forwarding=0"), gone: tool("sysctl -qw net.ipv4.conf.pod1.forwarding=1")},
		{name: "rp_filter", check: "rp_filter", text: "strict on uplink", come: flood, gone: calm},
		{name: "arp_ignore", check: "arp", text: "192.0.2.80 on uplink", come: tool("sysctl -qw net.ipv4.conf.uplink.arp_ignore=1"), gone: tool("sysctl -qw net.ipv4.conf.uplink.arp_ignore=0")},
		{name: "conntrack is full", check: "conntrack", text: "nearly full", come: func() {
			limit = conntrackMax(t, "")
			wantEach(t, n.Client, "tcp", "192.0.2.80:80")
			count, err := strconv.Atoi(strings.TrimSpace(n.tool(t, "sysctl", "-n", "net.netfilter.nf_conntrack_count")))
			must(t, err)
			conntrackMax(t, fmt.Sprint(1+count/2)) // entries end while a slow machine asks
		}, gone: func() { conntrackMax(t, limit) }, more: true, stands: true},
		{name: "a parameter of IPVS", check: "sysctls", text: "net.ipv4.vs.conntrack is 0", come: tool("sysctl -qw net.ipv4.vs.conntrack=0"), gone: tool("sysctl -qw net.ipv4.vs.conntrack=1")},
		{name: "MTU of a tunnel", check: "mtu", text: "pod3 (1400", come: tool("ip link set pod3 mtu 1400"), gone: tool("ip link set pod3 mtu 1500")},
		{name: "duplicate VIP", check: "duplicate", text: "answers for the VIP 192.0.2.80", args: []string{"--probe"},
			come: func() { must(t, n.Client.IP("addr add 192.0.2.80/32 dev eth0")) }, gone: func() { must(t, n.Client.IP("addr del 192.0.2.80/32 dev eth0")) }},
		{name: "firewall of nft", check: "firewall", text: "nftables inet fw gate: no rule accepts -t 192.0.2.80:80", come: gate, gone: tool("nft delete table inet fw"), more: true},
		{name: "firewall of iptables", check: "firewall", text: "iptables filter INPUT: no rule accepts", come: tool("iptables -P INPUT DROP"), gone: tool("iptables -P INPUT ACCEPT"), more: true},
		{name: "firewall of iptables-legacy", check: "firewall", text: "iptables-legacy filter FORWARD: no rule accepts", come: tool("iptables-legacy -P FORWARD DROP"), gone: tool("iptables-legacy -P FORWARD ACCEPT"), more: true, foreign: true},
		{name: "no route", check: "routes", text: "10.2.1.10 of ", come: tool("ip route add unreachable 10.2.1.10"), gone: tool("ip route del unreachable 10.2.1.10")},
		{name: "rule of routing", check: "packets", text: "no route from 10.2.1.10 to", come: tool("ip rule add from 10.2.1.0/24 prohibit"), gone: tool("ip rule del from 10.2.1.0/24 prohibit"), more: true},
		{name: "a port is closed, and nothing checks it", check: "routes", text: "takes no connection: 10.2.1.10:7000 of one (refused)", args: []string{"--probe"},
			come: tool("iptables -A OUTPUT -d 10.2.1.10 -p tcp --dport 7000 -j REJECT --reject-with tcp-reset"), gone: tool("iptables -D OUTPUT -d 10.2.1.10 -p tcp --dport 7000 -j REJECT --reject-with tcp-reset"), more: true},
		{name: "no neighbour", check: "routes", text: "does not answer ARP", come: tool("ip neigh replace 10.2.1.10 dev pod1 nud failed"), gone: tool("ip neigh flush dev pod1")},
	}
}

// objectFaults are those of virtual servers and sets, of svcproxy and of other programs.
func (n node) objectFaults(t *testing.T) []nodeFault {
	tool := func(words string) func() {
		return func() { f := strings.Fields(words); n.tool(t, f[0], f[1:]...) }
	}
	var stopProcess func()
	reload := func() { n.says(t, 0, "reload --wait") } // as doctor says
	emptied := "ipset del KUBE-CLUSTER-IP 10.96.0.30,tcp:80"
	if native() {
		emptied = "nft delete element ip svcproxy KUBE-CLUSTER-IP { 10.96.0.30 . tcp . 80 }"
	}
	foreign, noForeign := tool("ipvsadm -A -t 203.0.113.200:99 -s rr"), tool("ipvsadm -D -t 203.0.113.200:99")
	return []nodeFault{
		{name: "a foreign virtual server", check: "others", text: "made virtual servers: -t 203.0.113.200:99", come: foreign, gone: noForeign},
		{name: "keepalived", check: "others", text: "keepalived (process ", come: func() { stopProcess = n.posesAs(t, "keepalived"); foreign() }, gone: func() { noForeign(); stopProcess() }},
		{name: "ldirectord", check: "others", text: "ldirectord runs on this node", come: func() { stopProcess = n.posesAs(t, "ldirectord") }, gone: func() { stopProcess() }},
		{name: "weight 0", check: "packets", text: "tcp 10.96.0.30:80: refused because 10.2.1.10:7000 of service one: weight 0",
			come: tool("ipvsadm -e -t 10.96.0.30:80 -r 10.2.1.10:7000 -m -w 0"), gone: reload, heals: true},
		{name: "set emptied", check: "packets", text: "tcp 10.96.0.30:80: refused because of the rule filter KUBE-IPVS-FILTER",
			come: tool(emptied), gone: reload, heals: true},
	}
}

// strayPackets are packets from an address that does not belong behind the uplink, where the check of
// sources becomes strict: up to a hundred a second, because doctor takes a few for granted.
func (n node) strayPackets(t *testing.T) (come, gone func()) {
	const from = "10.2.2.99"
	stop := make(chan struct{})
	var sent sync.WaitGroup
	return func() {
			ask(t, n.Client, "tcp", "10.96.0.30:80") // so that ARP for the gateway is known: the check drops ARP requests of the address, too
			must(t, n.Client.IP("addr add "+from+"/32 dev eth0"))
			n.tool(t, "sysctl", "-qw", "net.ipv4.conf.uplink.rp_filter=1")
			for range 8 {
				sent.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							n.Client.Try(netip.MustParseAddr(from), netip.MustParseAddrPort("10.96.0.30:80"), 50*time.Millisecond)
						}
					}
				})
			}
		}, func() {
			close(stop)
			sent.Wait()
			n.tool(t, "sysctl", "-qw", "net.ipv4.conf.uplink.rp_filter=0")
			must(t, n.Client.IP("addr del "+from+"/32 dev eth0"))
		}
}

// conntrackMax sets the limit of all network namespaces, unless it is "", and returns the one before.
func conntrackMax(t *testing.T, limit string) string {
	t.Helper()
	const path = "/proc/sys/net/netfilter/nf_conntrack_max"
	before, err := os.ReadFile(path)
	must(t, err)
	if limit != "" {
		must(t, os.WriteFile(path, []byte(limit), 0))
	}
	return strings.TrimSpace(string(before))
}

// otherFaults are those of programs, files and disks.
func (n node) otherFaults(t *testing.T, state string) []nodeFault {
	unit, modprobe := "/etc/systemd/system/svcproxy.service", "/etc/modprobe.d/svcproxy-test.conf"
	for _, path := range []string{unit, modprobe} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		t.Cleanup(func() { os.Remove(path) })
	}
	services := filepath.Join(n.Dir, "services.toml")
	old := time.Now().Add(-time.Hour)
	var stopProcess func()
	var kept []byte
	edit := func(more string, when time.Time) {
		text, err := os.ReadFile(services)
		must(t, err)
		kept = text
		must(t, os.WriteFile(services, append(slices.Clone(text), more...), 0o644))
		must(t, os.Chtimes(services, when, when))
	}
	restore := func() { must(t, os.WriteFile(services, kept, 0o644)) }
	return []nodeFault{
		{name: "kube-proxy", check: "others", text: "kube-proxy runs on this node", come: func() { stopProcess = n.posesAs(t, "kube-proxy") }, gone: func() { stopProcess() }},
		{name: "unit masked", check: "unit", text: unit, come: func() { must(t, os.Symlink(os.DevNull, unit)) }, gone: func() { must(t, os.Remove(unit)) }},
		{name: "module barred", check: "modules", text: "keeps module ip_vs", come: func() { must(t, os.WriteFile(modprobe, []byte("install ip_vs /bin/false\n"), 0o644)) }, gone: func() { must(t, os.Remove(modprobe)) }},
		{name: "open folder", check: "folders", text: "every user may write " + state, come: func() { must(t, os.Chmod(state, 0o777)) }, gone: func() { must(t, os.Chmod(state, 0o755)) }},
		{name: "disk full", check: "disk", text: "the disk of " + state + " is full", come: func() {
			os.WriteFile(filepath.Join(state, "large"), make([]byte, 9<<20), 0o600) // as much as fits
		}, gone: func() { must(t, os.Remove(filepath.Join(state, "large"))) }},
		{name: "clock", check: "clock", text: "the clock was set back", come: func() {
			must(t, os.WriteFile(filepath.Join(state, "later"), nil, 0o600))
			must(t, os.Chtimes(filepath.Join(state, "later"), old, time.Now().Add(time.Hour)))
		}, gone: func() { must(t, os.Remove(filepath.Join(state, "later"))) }},
		{name: "a file that is not valid", check: "configuration", text: "services.toml:", come: func() { edit("[services.bad]\nclusterIP = 7\n", time.Now()) }, gone: restore},
		{name: "a file that is not served", check: "files", text: "more", come: func() { edit(clusterIP("more", "10.96.0.40", `["10.2.1.10"]`), old) }, gone: restore, more: true},
	}
}

// posesAs runs a program under the name of another on the node, until the function that it returns is called.
func (n node) posesAs(t *testing.T, name string) (stop func()) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	must(t, err)
	text, err := os.ReadFile(sleep)
	must(t, err)
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, text, 0o755))
	cmd := exec.Command(path, "600")
	must(t, n.Lab.Node.Start(cmd))
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// asUser asks as a member of the socket's group, for whom the daemon reads the kernel, and as a user without any right,
// who is told which is missing.
func (n node) asUser(t *testing.T) {
	t.Helper()
	const member, nobody = "777", "65534" // groups
	for dir := n.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.Chmod(filepath.Join(n.Dir, "run"), 0o755))
	socket := filepath.Join(n.Dir, "run", "svcproxy.sock")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%s: %v, %v", socket, info, err)
	}
	must(t, os.Chown(socket, 0, 777)) // the guest has no group svcproxy
	binary := filepath.Join(n.Dir, "svcproxy")
	text, err := os.ReadFile(n.Binary)
	must(t, err)
	must(t, os.WriteFile(binary, text, 0o755))
	ask := func(group string, code int, command string, args ...string) string {
		out, err := n.Lab.Node.Run("setpriv", append([]string{"--reuid", "65534", "--regid", "65534", "--groups", group,
			binary, command, "--config", filepath.Join(n.Dir, "svcproxy.toml")}, args...)...)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == code {
			return out + err.Error()
		}
		if err != nil || code != 0 {
			t.Errorf("%s as user of group %s: want exit code %d: %v\n%s", command, group, code, err, out)
		}
		return out
	}
	if out := ask(member, 0, "doctor"); !strings.Contains(out, "nothing is wrong") || strings.Contains(out, "virtual servers, rules and sets") {
		t.Errorf("doctor as a member of the group:\n%s", out)
	}
	if out := ask(member, 0, "explain", "10.96.0.30:80"); !strings.HasPrefix(out, "served by 10.2.1.10:7000") {
		t.Errorf("explain as a member of the group:\n%s", out)
	}
	if out := ask(nobody, 0, "doctor"); !strings.Contains(out, "run as root, or as a member of the group svcproxy") || !strings.Contains(out, "CAP_NET_ADMIN") {
		t.Errorf("doctor without rights:\n%s", out)
	}
	if out := ask(nobody, 5, "explain", "10.96.0.30:80"); !strings.Contains(out, "as a member of the group svcproxy") {
		t.Errorf("explain without rights:\n%s", out)
	}
	folder := filepath.Join(n.Dir, "reports")
	must(t, os.Mkdir(folder, 0o755))
	must(t, os.Chown(folder, 65534, 65534))
	out := ask(member, 0, "report", "--write", filepath.Join(folder, "report.tar.gz"))
	for _, part := range []string{"kernel.txt", "doctor.txt", "status.json", "metrics.txt"} {
		if !strings.Contains(out, part) {
			t.Errorf("the report of a member of the group has no %s:\n%s", part, out)
		}
	}
	out = ask(nobody, 0, "report", "--write", filepath.Join(folder, "less.tar.gz"))
	if !strings.Contains(out, "not in it: what svcproxy itself knows: ") || !strings.Contains(out, "CAP_NET_ADMIN") || strings.Contains(out, "kernel.txt") {
		t.Errorf("the report of a user without rights:\n%s", out)
	}
}

// reports wants a report of the running svcproxy to have all its parts, and no secret.
func (n node) reports(t *testing.T) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	said, code, err := n.Command("report", "--write", name)
	if err != nil || code != 0 {
		t.Fatalf("report: exit code %d, %v\n%s", code, err, said)
	}
	for _, part := range []string{"status.json", "metrics.txt", "events.jsonl", "kernel.txt", "doctor.txt", "versions.txt", "services.toml", "svcproxy.toml"} {
		if !strings.Contains(said, part) {
			t.Errorf("the report has no %s:\n%s", part, said)
		}
	}
	info, err := os.Stat(name)
	must(t, err)
	text, err := exec.Command("tar", "-xzOf", name).Output()
	must(t, err)
	if info.Mode().Perm() != 0o600 || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), "-A -t 10.96.0.31:443") {
		t.Errorf("the report, of mode %o:\n%s", info.Mode().Perm(), text)
	}
}
