package traffic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// explained is what a test reads of `svcproxy explain -o json`.
type explained struct {
	Packet, Fate, Sentence string
	Answers                []explained
	Backends               []struct{ Health string }
}

// explain asks svcproxy on the node, and wants the exit code that belongs to the answer.
func (n node) explain(t *testing.T, args ...string) (a explained) {
	t.Helper()
	out, code, err := n.Command("explain", append([]string{"-o", "json"}, args...)...)
	must(t, err)
	if end := strings.LastIndex(out, "}"); end >= 0 {
		out = out[strings.Index(out, "{") : end+1]
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("explain %q: %v\n%s", args, err, out)
	}
	want, known := map[string]int{"served": 0, "unsure": 7, "partly": 7, "": code}[a.Fate]
	if !known {
		want = 1
	}
	if code != want {
		t.Errorf("explain %q: exit code %d for %s", args, code, a.Sentence)
	}
	return a
}

// dropLimit is how long a connection that should be dropped is waited for: a packet and one more after a second.
const dropLimit = 1500 * time.Millisecond

// agrees compares an answer with a connection that is tried.
func agrees(t *testing.T, a explained, err error) {
	t.Helper()
	refused := errors.Is(err, unix.ECONNREFUSED)
	good := map[string]bool{
		"served": err == nil, "unsure": true, "partly": true, "refused": refused, "dropped": err != nil && !refused,
		"forwarded": err != nil, "node": refused, // nothing listens there
	}
	if !good[a.Fate] {
		t.Errorf("%s: %s (%s), and a connection: %v", a.Packet, a.Fate, a.Sentence, err)
	}
}

// question is about packets from a host to an address.
type question struct {
	host *lab.Host
	from string // for explain; "" is the host's address
	to   string
	want string // the fate
	says string // part of the sentence
}

// asked compares what explain says with a connection, both without the daemon, which would
// repair the kernel.
func (n node) asked(t *testing.T, q question) {
	t.Helper()
	to := netip.MustParseAddrPort(q.to)
	source, from := netip.Addr{}, q.from
	switch {
	case from != "":
		source = netip.MustParseAddr(from)
	case q.host == n.Lab.Node:
		from = "node"
	default:
		from = q.host.Addr(to.Addr()).String()
	}
	a := n.explain(t, "tcp", q.to, "--from", from)
	if a.Fate != q.want || !strings.Contains(a.Sentence, q.says) {
		t.Errorf("%s: %s, want %s with %q: %s", a.Packet, a.Fate, q.want, q.says, a.Sentence)
	}
	limit := dropLimit
	if a.Fate == "served" {
		limit = lab.AskLimit
	}
	agrees(t, a, q.host.Try(source, to, limit))
}

// explain says of packets what becomes of them when they are sent: where all is well, and
// with faults.
func TestExplainIsTrue(t *testing.T) {
	n := newNode(t, "")
	n.start(t, web+clusterIP("one", "10.96.0.30", `["10.2.1.10"]`)+"healthCheck = \"tcp\"\n"+clusterIP("empty", "10.96.0.31", "[]"))
	n.everyAddress(t)
	must(t, lab.Eventually(patience, func() error {
		if a := n.explain(t, "10.96.0.30:80"); len(a.Backends) != 1 || !strings.HasPrefix(a.Backends[0].Health, "up") {
			return fmt.Errorf("%+v", a)
		}
		return nil
	}))
	must(t, n.Stop())
	for _, q := range []question{
		{host: n.Client, to: "203.0.113.9:81", want: "refused"},
		{host: n.Client, to: "10.96.0.31:80", want: "refused"},
		{host: n.Lab.Node, to: "10.96.0.31:80", want: "refused"},
		{host: n.Client, to: "192.0.2.1:81", want: "node"},
		{host: n.Client, to: "203.0.113.77:80", want: "forwarded"},
		{host: n.Backends[0].Host, to: "10.96.0.30:80", want: "served"}, // to itself
	} {
		n.asked(t, q)
	}
	n.faults(t, modeOf(t))
}

// everyAddress compares the table of a service with connections.
func (n node) everyAddress(t *testing.T) {
	t.Helper()
	all := n.explain(t, "web").Answers
	for _, a := range all {
		if a.Fate != "served" {
			t.Errorf("%s: %s", a.Packet, a.Sentence)
		}
	}
	if len(all) != 2*3*(6+8) { // TCP and UDP, from three places, at six VIPs and at four addresses of each family
		t.Errorf("%d answers", len(all))
	}
	for _, to := range everywhere {
		for _, host := range []*lab.Host{n.Client, n.Lab.Node, n.Backends[0].Host} {
			n.asked(t, question{host: host, to: to, want: "served"})
		}
	}
}

// faults puts one fault after the other into the kernel, and takes each away again. The sentence names each.
func (n node) faults(t *testing.T, mode string) {
	one := question{host: n.Client, to: "10.96.0.30:80", want: "served"}
	run := func(name, want, says string, come, gone func()) {
		t.Run(name, func(t *testing.T) {
			q := one
			q.want, q.says = want, says
			come()
			n.asked(t, q)
			gone()
			n.asked(t, one)
		})
	}
	tool := func(words string) func() {
		return func() { f := strings.Fields(words); n.tool(t, f[0], f[1:]...) }
	}
	nft := func(hook, rule string) func() {
		return func() {
			n.feed(t, fmt.Sprintf("table inet fw { chain gate { type filter hook %s priority 0; policy drop; %s; }; }\n", hook, rule), "nft", "-f", "-")
		}
	}
	noTable := tool("nft delete table inet fw")
	if mode == "ipvs" {
		run("weight 0", "refused", "10.2.1.10:7000 of service one: weight 0", tool("ipvsadm -e -t 10.96.0.30:80 -r 10.2.1.10:7000 -m -w 0"), tool("ipvsadm -e -t 10.96.0.30:80 -r 10.2.1.10:7000 -m -w 1"))
		run("no virtual server", "node", "nothing at tcp 10.96.0.30:80", tool("ipvsadm -D -t 10.96.0.30:80"), func() {
			n.tool(t, "ipvsadm", "-A", "-t", "10.96.0.30:80", "-s", "rr")
			n.tool(t, "ipvsadm", "-a", "-t", "10.96.0.30:80", "-r", "10.2.1.10:7000", "-m")
		})
		run("VIP not local", "forwarded", "10.96.0.30 is not on this node", tool("ip addr del 10.96.0.30/32 dev kube-ipvs0"), tool("ip addr add 10.96.0.30/32 dev kube-ipvs0"))
		remove, add := "ipset del KUBE-CLUSTER-IP 10.96.0.30,tcp:80", "ipset add KUBE-CLUSTER-IP 10.96.0.30,tcp:80"
		if native() {
			remove, add = "nft delete element ip svcproxy KUBE-CLUSTER-IP { 10.96.0.30 . tcp . 80 }", "nft add element ip svcproxy KUBE-CLUSTER-IP { 10.96.0.30 . tcp . 80 }"
		}
		run("set emptied", "refused", "the rule filter KUBE-IPVS-FILTER", tool(remove), tool(add))
		run("firewall at input", "dropped", "gate at hook input", nft("input", "tcp dport 22 accept"), noTable)
		run("firewall at output", "dropped", "gate at hook output", nft("output", "tcp dport 22 accept"), noTable)
	}
	if mode == "iptables" { // rules of nat send it past input
		run("firewall at forward, of requests", "dropped", "gate at hook forward", nft("forward", "tcp dport 22 accept; ct state established,related accept"), noTable)
		run("firewall at input", "served", "10.2.1.10:7000", nft("input", "tcp dport 22 accept; icmpv6 type nd-neighbor-advert accept"), noTable)
	}
	run("firewall at forward", "dropped", "gate at hook forward", nft("forward", "udp dport 22 accept"), noTable)
	run("no route to the backend", "dropped", "no route to 10.2.1.10", tool("ip route add unreachable 10.2.1.10"), tool("ip route del unreachable 10.2.1.10"))
	run("no forwarding", "dropped", "net.ipv4.conf.pod1.forwarding is 0", tool("sysctl -qw net.ipv4.conf.pod1.forwarding=0"), tool("sysctl -qw net.ipv4.conf.pod1.forwarding=1"))
	t.Run("rp_filter", func(t *testing.T) {
		const from = "10.2.2.99" // the route to it leaves by pod2
		must(t, n.Client.IP("addr add "+from+"/32 dev eth0"))
		n.tool(t, "sysctl", "-qw", "net.ipv4.conf.uplink.rp_filter=1")
		a := n.explain(t, one.to, "--from", from, "--in", "uplink")
		if a.Fate != "dropped" || !strings.Contains(a.Sentence, "rp_filter") {
			t.Errorf("%s: %s", a.Packet, a.Sentence)
		}
		agrees(t, a, n.Client.Try(netip.MustParseAddr(from), netip.MustParseAddrPort(one.to), dropLimit))
	})
}

// A client in the network of its backend gets the reply directly, from an address that it
// never asked: the connection fails, and explain says so. Packets on a bridge that pass
// iptables are caught instead.
func TestExplainKnowsTheWayBack(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("one", "10.96.0.30", `["10.2.1.10"]`))
	pod2 := n.Backend("pod2").Host
	n.asked(t, question{host: pod2, to: "10.96.0.30:80", want: "served"})
	must(t, n.Lab.Node.IP("link add br9 type bridge", "link set br9 up", "addr flush dev pod1", "addr flush dev pod2",
		"link set pod1 master br9", "link set pod2 master br9", "addr add 10.2.1.1/24 dev br9"))
	must(t, pod2.IP("addr flush dev eth0", "addr add 10.2.1.77/24 dev eth0", "route add default via 10.2.1.1"))
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
		n.tool(t, "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0")
	}
	n.asked(t, question{host: pod2, from: "10.2.1.77", to: "10.96.0.30:80", want: "dropped", says: "its reply does not pass this node"})
	way := question{host: n.Client, to: "10.96.0.30:80", want: "served"}
	n.asked(t, way)
	const table = "nft add table bridge t\nnft add chain bridge t c { type filter hook %s priority 0; }\nnft add rule bridge t c ip %s 10.2.1.10 drop"
	for hook, end := range map[string]string{"input": "saddr", "output": "daddr", "postrouting": "daddr"} {
		t.Run("bridge "+hook, func(t *testing.T) {
			n.meets(t, way, obstacle{come: fmt.Sprintf(table, hook, end), gone: "nft delete table bridge t", want: "dropped", says: "nftables bridge t c at hook bridge-" + hook})
		})
	}
}
