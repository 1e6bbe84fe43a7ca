package traffic

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/testdata/lab"
)

// obstacle is something on the node that keeps packets to a VIP from being served.
type obstacle struct {
	name       string
	come, gone string // commands, one a line
	nft        string // a rule at the hook that come names, instead of a command
	want       string // the fate
	says       string // part of the sentence
}

// Each fault is named by the first line of `explain`, and the packet ends as that says.
func TestExplainNamesFaults(t *testing.T) {
	n := newNode(t, "")
	n.start(t, clusterIP("one", "10.96.0.30", `["10.2.1.10"]`))
	must(t, n.Stop())
	one := question{host: n.Client, to: "10.96.0.30:80", want: "served"}
	n.asked(t, one)
	list, legacy := nftFaults, n.legacy(t)
	if legacy {
		list = iptablesFaults
	}
	for _, f := range list {
		t.Run(f.name, func(t *testing.T) { n.meets(t, one, f) })
	}
	if !legacy {
		t.Run("connection tracking is full", func(t *testing.T) { n.fullTracker(t, one) })
	}
	n.asked(t, one)
}

// legacy reports whether the node's iptables has the legacy back end.
func (n node) legacy(t *testing.T) bool {
	t.Helper()
	version, err := n.Lab.Node.Run("iptables", "-V")
	must(t, err)
	return strings.Contains(version, "legacy")
}

// meets puts one fault into the kernel, compares what explain says with a packet, and takes the fault away.
func (n node) meets(t *testing.T, q question, f obstacle) {
	t.Helper()
	run := func(commands string) {
		for line := range strings.Lines(commands) {
			words := strings.Fields(line)
			n.tool(t, words[0], words[1:]...)
		}
	}
	if f.nft != "" {
		n.feed(t, fmt.Sprintf("table inet fw { chain gate { type filter hook %s priority 0; policy accept; %s; }; }\n", f.come, f.nft), "nft", "-f", "-")
		f.gone = "nft delete table inet fw"
	} else {
		run(f.come)
	}
	defer run(f.gone)
	n.wantNamed(t, q, f)
}

// wantNamed wants a fate, and a sentence that names the fault.
func (n node) wantNamed(t *testing.T, q question, f obstacle) {
	t.Helper()
	from := q.host.Addr(netip.MustParseAddrPort(q.to).Addr()).String()
	a := n.explain(t, "tcp", q.to, "--from", from)
	text, _, err := n.Command("explain", "tcp", q.to, "--from", from)
	must(t, err)
	first, _, _ := strings.Cut(text, "\n")
	if a.Fate != f.want || first != a.Sentence || !strings.Contains(first, f.says) {
		t.Errorf("%s: %s, want %s with %q; the first line is %q", a.Fate, a.Sentence, f.want, f.says, first)
	}
	limit := dropLimit
	if a.Fate == "served" {
		limit = lab.AskLimit
	}
	agrees(t, a, q.host.Try(netip.Addr{}, netip.MustParseAddrPort(q.to), limit))
}

// nftFaults are those that are alike with both back ends of iptables.
var nftFaults = []obstacle{
	{name: "rule at prerouting", come: "prerouting", nft: "ip daddr 10.96.0.0/16 drop", want: "dropped", says: "gate at hook prerouting"},
	{name: "rule at input", come: "input", nft: "iifname uplink tcp dport 80 ct state new drop", want: "dropped", says: "gate at hook input"},
	{name: "rule that rejects", come: "input", nft: "tcp dport 80 reject", want: "refused", says: "gate at hook input"},
	{name: "rule at output", come: "output", nft: "ip daddr 10.2.1.10 oifname pod1 drop", want: "dropped", says: "gate at hook output"},
	{name: "rule at forward", come: "forward", nft: "iifname pod1 tcp sport 7000 drop", want: "dropped", says: "gate at hook forward"},
	{name: "rule at postrouting", come: "postrouting", nft: "oifname pod1 drop", want: "dropped", says: "gate at hook postrouting"},
	{name: "rule about another client", come: "input", nft: "ip saddr 203.0.113.0/24 drop", want: "served", says: "10.2.1.10:7000"},
	{name: "rule of routing, about replies", come: "ip rule add from 10.2.1.0/24 prohibit", gone: "ip rule del from 10.2.1.0/24 prohibit", want: "dropped", says: "no route from 10.2.1.10 to"},
	{name: "rule of routing, about the VIP", come: "ip rule add from 10.96.0.30 blackhole", gone: "ip rule del from 10.96.0.30 blackhole", want: "dropped", says: "no route from 10.96.0.30 to"},
	{name: "blackhole", come: "ip route add blackhole 10.2.1.10", gone: "ip route del blackhole 10.2.1.10", want: "dropped", says: "no route to 10.2.1.10"},
}

// iptablesFaults are rules and policies of iptables, by the back end that the test runs with.
var iptablesFaults = []obstacle{
	{name: "raw PREROUTING", come: "iptables -t raw -A PREROUTING -p tcp --dport 80 -j DROP", gone: "iptables -t raw -F PREROUTING", want: "dropped", says: "raw PREROUTING at hook prerouting"},
	{name: "filter INPUT", come: "iptables -A INPUT -d 10.96.0.30 -j DROP", gone: "iptables -D INPUT -d 10.96.0.30 -j DROP", want: "dropped", says: "filter INPUT at hook input"},
	{name: "policy of INPUT", come: "iptables -P INPUT DROP", gone: "iptables -P INPUT ACCEPT", want: "dropped", says: "filter INPUT at hook input"},
	{name: "policy of OUTPUT", come: "iptables -P OUTPUT DROP", gone: "iptables -P OUTPUT ACCEPT", want: "dropped", says: "filter OUTPUT at hook output"},
	{name: "filter FORWARD", come: "iptables -I FORWARD -i pod1 -j DROP", gone: "iptables -D FORWARD -i pod1 -j DROP", want: "dropped", says: "filter FORWARD at hook forward"},
	{name: "mangle POSTROUTING", come: "iptables -t mangle -A POSTROUTING -d 10.2.1.0/24 -j DROP", gone: "iptables -t mangle -F POSTROUTING", want: "dropped", says: "mangle POSTROUTING at hook postrouting"},
	{name: "chain", come: "iptables -N MINE\niptables -A INPUT -p tcp -j MINE\niptables -A MINE -m tcp -p tcp --dport 80 -j REJECT", gone: "iptables -D INPUT -p tcp -j MINE\niptables -F MINE\niptables -X MINE", want: "refused", says: "filter INPUT at hook input"},
}

// fullTracker lowers the limit of connection tracking below the number of connections on the node, which are answered
// and so not given up for new ones.
func (n node) fullTracker(t *testing.T, q question) {
	t.Helper()
	const path = "/proc/sys/net/netfilter/nf_conntrack_max"
	before, err := os.ReadFile(path)
	must(t, err)
	conn, err := n.Client.Dial("tcp", netip.MustParseAddrPort(q.to))
	must(t, err)
	defer conn.Close()
	if a := n.explain(t, "tcp", q.to, "--conn", "--from", conn.LocalAddr().String()); !strings.Contains(a.Sentence, "the connection is at 10.2.1.10:7000") {
		t.Errorf("a connection that exists: %s", a.Sentence)
	}
	count := strings.TrimSpace(n.tool(t, "sysctl", "-n", "net.netfilter.nf_conntrack_count"))
	must(t, os.WriteFile(path, []byte("1"), 0o644))
	defer func() { must(t, os.WriteFile(path, before, 0o644)) }()
	a := n.explain(t, "tcp", q.to, "--from", q.host.Addr(netip.MustParseAddrPort(q.to).Addr()).String())
	if a.Fate != "dropped" || !strings.Contains(a.Sentence, "connection tracking: its table is full") {
		t.Errorf("with %s connections: %s", count, a.Sentence)
	}
}
