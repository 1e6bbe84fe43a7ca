package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// configure gives a running svcproxy another configuration and waits until it is
// carried out.
func (n node) configure(t *testing.T, main string) {
	t.Helper()
	mark := n.Log.Len()
	must(t, n.Configure(main))
	n.synced(t, mark)
}

// parameters reads sysctls of the node by the last parts of their names, and IPVS's timeouts.
func (n node) parameters(t *testing.T, names ...string) string {
	t.Helper()
	values := strings.Fields(n.tool(t, "sysctl", append([]string{"-n"}, names...)...))
	timeouts := strings.Fields(n.tool(t, "ipvsadm", "-L", "--timeout"))
	return strings.Join(append(values, timeouts[max(0, len(timeouts)-3):]...), " ")
}

// Keys that set numbers in the kernel: a value is set, 0 leaves the kernel's value
// alone, and a value that is no longer configured is restored, as after cleanup.
func TestKernelParametersOfTheConfiguration(t *testing.T) {
	n := newLonelyNode(t, "")
	names := []string{
		"net.netfilter.nf_conntrack_tcp_timeout_established", "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
		"net.netfilter.nf_conntrack_tcp_be_liberal", "net.netfilter.nf_conntrack_udp_timeout", "net.netfilter.nf_conntrack_udp_timeout_stream",
		"net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.arp_announce",
	}
	n.tool(t, "sysctl", "-qw", names[0]+"=5000", names[1]+"=61", names[3]+"=31")
	n.tool(t, "ipvsadm", "--set", "0", "0", "333")
	found := n.parameters(t, names...)
	want := func(when, values string) {
		t.Helper()
		if have := n.parameters(t, names...); have != values {
			t.Errorf("%s: %s, want %s", when, have, values)
		}
	}
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	stream := strings.Fields(found)[4]
	want("by default: an operator's timeouts stay", found)
	n.configure(t, "conntrack.tcpEstablishedTimeout = \"24h\"\nconntrack.tcpCloseWaitTimeout = \"1h\"\n")
	want("written down", "86400 3600 0 31 "+stream+" 0 0 900 120 333")
	alone := "conntrack.tcpEstablishedTimeout = \"0s\"\nconntrack.tcpCloseWaitTimeout = \"0s\"\n"
	n.configure(t, alone)
	want("left alone", found)
	n.configure(t, alone+`
conntrack.udpTimeout = "21s"
conntrack.udpStreamTimeout = "22s"
conntrack.tcpBeLiberal = true
ipvs.strictARP = true
ipvs.tcpTimeout = "30m"
ipvs.tcpFinTimeout = "23s"
ipvs.udpTimeout = "24s"
`)
	want("all", "5000 61 1 21 22 1 2 1800 23 24")
	n.configure(t, alone+`ipvs.udpTimeout = "25s"`)
	want("but one", strings.TrimSuffix(found, "333")+"25")
	must(t, n.Stop())
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	want("after cleanup", found)
}

// Timeouts with the kernel's default value are replaced, once for all restarts,
// and restored by cleanup.
func TestConntrackTimeoutsOfTheKernelAreReplaced(t *testing.T) {
	n := newLonelyNode(t, "")
	names := []string{"net.netfilter.nf_conntrack_tcp_timeout_established", "net.netfilter.nf_conntrack_tcp_timeout_close_wait"}
	found := n.parameters(t, names...)
	for _, run := range []string{"first", "second"} {
		mark := n.Log.Len()
		must(t, n.Serve(clusterIP("web", "10.96.0.20", allV4)))
		must(t, n.Start())
		if _, err := n.Wait(mark, "msg=starting"); err != nil {
			t.Fatal(err)
		}
		if run == "first" {
			n.synced(t, mark)
		}
		if have := n.parameters(t, names...); have != "86400 3600 900 120 300" {
			t.Errorf("%s start: %s, found %s", run, have, found)
		}
		must(t, n.Stop())
	}
	if out, code, err := n.Command("cleanup"); err != nil || code != 0 {
		t.Errorf("cleanup: %v, exit code %d\n%s", err, code, out)
	}
	if have := n.parameters(t, names...); have != found {
		t.Errorf("after cleanup: %s, found %s", have, found)
	}
}

// The sizes of the connection table and of its hash belong to the machine: a plan
// sets them in the first network namespace only, where they can be written.
func TestConnectionTableSize(t *testing.T) {
	inGuest(t, "sets the size of the machine's connection table")
	const main = "conntrack.maxPerCore = 1\nconntrack.min = 300001"
	n := newLonelyNode(t, main)
	must(t, n.Serve(""))
	const size, buckets = "net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_buckets"
	plan, code, err := n.Command("plan")
	if err != nil || code != 0 || strings.Contains(plan, size) || strings.Contains(plan, buckets) {
		t.Errorf("in a namespace: %v, exit code %d\n%s", err, code, plan)
	}
	f, err := os.OpenFile("/proc/sys/net/netfilter/nf_conntrack_max", os.O_WRONLY, 0)
	writable := err == nil
	if writable {
		f.Close()
	}
	for _, c := range []struct {
		main string
		sets bool
	}{{main, writable}, {"conntrack.maxPerCore = 0\nconntrack.min = 300001", false}} {
		must(t, n.Configure(c.main))
		out, err := exec.Command(n.Binary, "plan", "--config", filepath.Join(n.Dir, "svcproxy.toml")).CombinedOutput()
		sets := func(name string, value uint32) bool {
			return strings.Contains(string(out), fmt.Sprintf("~ %s = %d (was", name, value))
		}
		grows := c.sets && bucketsFound(t) < mode.Buckets(300001) // a larger hash stays
		if err != nil || sets(size, 300001) != c.sets || sets(buckets, mode.Buckets(300001)) != grows {
			t.Errorf("%q where it is writable %t, the hash grows %t: %v\n%s", c.main, writable, grows, err, out)
		}
	}
	if writable {
		wantBucketsAsWritten(t, 300001)
	}
}

const bucketsFile = "/proc/sys/net/netfilter/nf_conntrack_buckets"

// bucketsFound reads the size of the connection tracker's hash.
func bucketsFound(t *testing.T) uint32 {
	t.Helper()
	text, err := os.ReadFile(bucketsFile)
	must(t, err)
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	must(t, err)
	return uint32(n)
}

// wantBucketsAsWritten writes the size of the hash for so many entries and puts the
// old one back. The kernel rounds the size up to whole pages, and a number other
// than the one that was written would be drift for ever.
func wantBucketsAsWritten(t *testing.T, entries uint32) {
	t.Helper()
	found, wrote := bucketsFound(t), mode.Buckets(entries)
	must(t, os.WriteFile(bucketsFile, fmt.Append(nil, wrote), 0))
	if got := bucketsFound(t); got != wrote {
		t.Errorf("wrote %d, read %d", wrote, got)
	}
	must(t, os.WriteFile(bucketsFile, fmt.Append(nil, found), 0))
}

// Another bit is set, asked for, cleared and accepted, in both families: the three
// chains that have it follow together, or nothing is masqueraded.
func TestMasqueradeBit(t *testing.T) {
	n := newNode(t, "iptables.masqueradeBit = 31")
	n.start(t, web)
	tools := []string{"iptables-save", "ip6tables-save"}
	if n.Mode == "nftables" || native() {
		if tables := n.tables(t); !strings.Contains(tables, "meta mark set meta mark | 0x80000000") || strings.Contains(tables, "0x4000") {
			t.Errorf("not this bit alone:\n%s", tables)
		}
		tools = nil
	}
	for _, tool := range tools {
		rules := n.tool(t, tool)
		for _, rule := range []string{
			"-A KUBE-MARK-MASQ -j MARK --set-xmark 0x80000000/0x80000000",
			"-A KUBE-POSTROUTING -m mark ! --mark 0x80000000/0x80000000 -j RETURN",
			"-A KUBE-POSTROUTING -j MARK --set-xmark 0x80000000/0x0",
			"-m mark --mark 0x80000000/0x80000000 -j ACCEPT",
		} {
			if !strings.Contains(rules, rule) {
				t.Errorf("%s has no %s:\n%s", tool, rule, rules)
			}
		}
		if strings.Contains(rules, "0x4000") {
			t.Errorf("%s has the default bit, too:\n%s", tool, rules)
		}
	}
	for _, to := range []string{"198.51.100.80:80", "[2001:db8:80::80]:80"} {
		wantSeen(t, "masqueradeBit", n.Client, netip.MustParseAddrPort(to), theNode)
	}
}

// The ways to tell this node's own workloads that TestWhomTheBackendSees has not:
// pod3 is one, pod1 is not.
func TestDetectLocal(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("web", "10.96.0.20", `["10.2.2.10"]`))
	to := netip.MustParseAddrPort("10.96.0.20:80")
	for _, main := range []string{
		"detectLocalMode = \"BridgeInterface\"\ndetectLocal.bridgeInterface = \"pod3\"",
		"detectLocalMode = \"NodeCIDR\"\nnode.localCIDRs = [\"10.2.3.0/24\"]\nclusterCIDR = \"10.2.0.0/16\"",
	} {
		n.configure(t, main)
		wantSeen(t, main, n.Backend("pod3").Host, to, theAsker)
		wantSeen(t, main, n.Backend("pod1").Host, to, theNode)
		wantSeen(t, main, n.Client, to, theNode)
	}
}

// Foreign virtual servers stay, unless deleteUnknown; then those in excludeCIDRs do.
func TestForeignVirtualServersByPolicy(t *testing.T) {
	n := newLonelyNode(t, eachSecond)
	foreign := []string{"-A -t 10.99.0.1:99 -s wlc", "-A -u 10.98.0.1:98 -s rr", "-A -t [fd00:99::1]:99 -s rr"}
	for _, v := range foreign {
		n.tool(t, "ipvsadm", strings.Fields(v)...)
	}
	have := func() (there []string) {
		t.Helper()
		virtuals, err := n.Lab.Node.Virtuals()
		must(t, err)
		for _, v := range foreign {
			if slices.Contains(virtuals, v) {
				there = append(there, v)
			}
		}
		return there
	}
	n.start(t, clusterIP("web", "10.96.0.20", allV4))
	if got := have(); len(got) != 3 {
		t.Errorf("by default %q stay, want all", got)
	}
	n.configure(t, eachSecond+"ipvs.deleteUnknown = true\nipvs.excludeCIDRs = [\"10.98.0.0/16\", \"fd00:98::/32\"]")
	if got := have(); !slices.Equal(got, foreign[1:2]) {
		t.Errorf("with deleteUnknown %q stay, want the one excluded", got)
	}
	n.configure(t, eachSecond+"ipvs.deleteUnknown = true")
	if got := have(); len(got) != 0 {
		t.Errorf("with nothing excluded %q stay", got)
	}
}

// Everything of ours goes by the names that are configured.
func TestNamesOfTheConfiguration(t *testing.T) {
	kerneltest.Need(t, kerneltest.Dummy)
	n := newNode(t, "ipvs.namePrefix = \"EDGE-1\"\nipvs.deviceName = \"edge0\"")
	n.start(t, web)
	r := n.read(t)
	for _, line := range r.Lines() {
		if strings.Contains(strings.ToUpper(line), "KUBE") && !strings.Contains(line, "--comment") {
			t.Errorf("not by our names: %s", line)
		}
	}
	wanted := []string{"edge0 198.51.100.80/32"}
	if mode := modeOf(t); mode == "nftables" {
		tables := n.tool(t, "nft", "list", "ruleset")
		if !strings.Contains(tables, "table ip svcproxy-edge-1 {") || !strings.Contains(tables, "map EDGE-1-FRONTENDS {") || strings.Contains(tables, "KUBE") {
			t.Errorf("not by our names:\n%s", head(tables))
		}
	} else if mode != "userspace" {
		wanted = append(wanted, "iptables-save :EDGE-1-SERVICES -", "iptables-save :EDGE-1-POSTROUTING -")
	}
	if modeOf(t) == "ipvs" {
		wanted = append(wanted, "add EDGE-1-VIRTUAL-SERVER 10.96.0.20,tcp:80", "iptables-save -A EDGE-1-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000")
	}
	for _, want := range wanted {
		if !slices.Contains(r.Lines(), want) {
			t.Errorf("there is no %s", want)
		}
	}
	wantEach(t, n.Client, "tcp", "198.51.100.80:80")
}

// Which address of the node is its primary one.
func TestPrimaryAddress(t *testing.T) {
	n := newNode(t, "nodePortAddresses = [\"primary\"]")
	n.start(t, web)
	wantNodePorts(t, n, []string{"192.0.2.1"}) // that of the only default route
	for _, c := range []struct{ main, want string }{
		{`node.addresses = ["10.2.1.1", "10.2.2.1", "fd00:2:1::1"]`, "10.2.1.1 fd00:2:1::1"},
		{"node.addresses = [\"10.2.1.1\", \"fd00:2:1::1\"]\nbindAddress = \"10.2.3.1\"", "10.2.3.1 fd00:2:1::1"},
		{"node.addresses = [\"10.2.1.1\"]\nbindAddress = \"2001:db8::1\"", "10.2.1.1 2001:db8::1"},
		{`node.addresses = ["198.51.100.9"]`, ""}, // which it does not have
	} {
		n.configure(t, "nodePortAddresses = [\"primary\"]\n"+c.main)
		wantNodePorts(t, n, strings.Fields(c.want))
	}
}
