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
	to         string // if it is not what all are about
	come, gone string // commands, one a line
	nft        string // a rule at the hook that come names, instead of a command
	want       string // the fate
	says       string // part of the sentence
	not        bool   // what the sentence has as a condition is not so: clients fail
	mode       string // the only one that has it; "" for all
}

// Each fault is named by the first line of `explain`, and the packet ends as that says.
func TestExplainNamesFaults(t *testing.T) {
	n := newNode(t, "")
	n.startWays(t)
	one := question{host: n.Client, to: "10.96.0.30:80", want: "served"}
	n.asked(t, one)
	list, legacy := append(nftFaults, moreFaults...), n.legacy(t)
	if legacy {
		list = iptablesFaults
	}
	for _, f := range list {
		if f.mode == "" || f.mode == modeOf(t) {
			t.Run(f.name, func(t *testing.T) { n.meets(t, one, f) })
		}
	}
	if !legacy {
		n.gateway(t, one)
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
	if f.to != "" {
		q.to = f.to
	}
	if f.nft != "" {
		n.feed(t, fmt.Sprintf("table inet fw { chain gate { type filter hook %s priority 0; policy accept; %s; }; }\n", f.come, f.nft), "nft", "-f", "-")
		f.gone = "nft delete table inet fw"
	} else {
		run(f.come)
	}
	n.Client.IP("neigh flush dev eth0") // so that ARP is asked again
	defer run(f.gone)
	n.wantNamed(t, q, f)
}

// wantNamed wants a fate, and a sentence that names the fault.
func (n node) wantNamed(t *testing.T, q question, f obstacle) {
	t.Helper()
	from := q.host.Addr(netip.MustParseAddrPort(q.to).Addr()).String()
	args := []string{"tcp", q.to, "--from", from}
	if q.host == n.Client {
		args = append(args, "--in", "uplink")
	}
	a := n.explain(t, args...)
	t.Log(a.Sentence)
	if a.Fate != f.want || !strings.Contains(a.Sentence, f.says) {
		t.Errorf("%s: %s, want %s with %q", a.Fate, a.Sentence, f.want, f.says)
	}
	limit := dropLimit
	if a.Fate == "served" && !f.not {
		limit = lab.AskLimit
	}
	err := q.host.Try(netip.Addr{}, netip.MustParseAddrPort(q.to), limit)
	if !f.not {
		agrees(t, a, err)
	} else if err == nil || !strings.Contains(f.says, "if ") {
		t.Errorf("%s, and a connection: %v", a.Sentence, err)
	}
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

// startWays serves what the faults are about, with an endpoint on the node itself, and stops svcproxy, which would mend
// the kernel.
func (n node) startWays(t *testing.T) {
	t.Helper()
	services := onTheLink + clusterIP("one", "10.96.0.30", `["10.2.1.10"]`) + clusterIP("here", "10.96.0.32", `["10.2.3.1"]`) +
		strings.ReplaceAll(clusterIP("closed", "10.96.0.31", `["10.2.2.10"]`), "7000", "7999")
	if modeOf(t) == "ipvs" {
		services += strings.ReplaceAll(clusterIP("tunnel", "10.96.0.33", `["10.2.3.10"]`), "port = 80", "port = 7000") + "forward = \"ipip\"\n"
	}
	n.start(t, services)
	must(t, n.Stop())
	own := &lab.Backend{Host: n.Lab.Node}
	port, err := own.OpenPort(lab.LinePort, own.AnswerLines)
	must(t, err)
	t.Cleanup(func() { port.Close() })
}

// gateway gives the backend another way to clients.
func (n node) gateway(t *testing.T, q question) {
	t.Run("gateway of the backend", func(t *testing.T) {
		pod := n.Backend("pod1").Host
		must(t, pod.IP("route replace default via 10.2.1.99"))
		n.wantNamed(t, q, obstacle{want: "served", says: "if it answers and replies pass this node", not: true})
		must(t, pod.IP("route replace default via 10.2.1.1"))
	})
}

// moreFaults are those that hold with one back end of iptables and the other, where the modes may differ.
var moreFaults = []obstacle{
	{name: "route of a mark", come: "iptables -t mangle -I PREROUTING -p tcp --dport 80 -j MARK --set-mark 7\nip rule add fwmark 7/0xff blackhole", gone: "ip rule del fwmark 7/0xff blackhole\niptables -t mangle -D PREROUTING 1", mode: "iptables", want: "dropped", says: "by uplink to 10.2.1.10 (blackhole)"},
	{name: "route of a mark, about replies", come: "iptables -t mangle -I PREROUTING -p tcp --sport 7000 -j MARK --set-mark 7\nip rule add fwmark 7/0xff prohibit", gone: "ip rule del fwmark 7/0xff prohibit\niptables -t mangle -D PREROUTING 1", want: "dropped", says: "no route from 10.2.1.10 to"},
	{name: "route of another mark", come: "iptables -t mangle -I PREROUTING -p tcp --dport 81 -j MARK --set-mark 7\nip rule add fwmark 7/0xff blackhole", gone: "ip rule del fwmark 7/0xff blackhole\niptables -t mangle -D PREROUTING 1", want: "served", says: "10.2.1.10:7000"},
	{name: "rule about a mark", come: "iptables -t mangle -I PREROUTING -p tcp --dport 80 -j MARK --set-mark 7\niptables -I FORWARD -m mark --mark 7/0xff -j DROP\niptables -I INPUT -m mark --mark 7/0xff -j DROP", gone: "iptables -t mangle -D PREROUTING 1\niptables -D FORWARD 1\niptables -D INPUT 1", want: "dropped", says: "-m mark --mark 0x7/0xff -j DROP"},
	{name: "untracked, and a rule about new ones, by nat", mode: "iptables", come: "iptables -t raw -I PREROUTING -p tcp --dport 80 -j CT --notrack\niptables -I INPUT -p tcp -m conntrack --ctstate NEW -j DROP", gone: "iptables -D INPUT 1\niptables -t raw -D PREROUTING 1", want: "node", says: "rules take it out of connection tracking"},
	{name: "untracked, and a rule about new ones", mode: "ipvs", come: "iptables -t raw -I PREROUTING -p tcp --dport 80 -j CT --notrack\niptables -I INPUT -p tcp -m conntrack --ctstate NEW -j DROP", gone: "iptables -D INPUT 1\niptables -t raw -D PREROUTING 1", want: "served", says: "10.2.1.10:7000"},
	{name: "untracked, and a rule about these", come: "iptables -t raw -I PREROUTING -p tcp --dport 80 -j CT --notrack\niptables -I INPUT -p tcp -m conntrack --ctstate UNTRACKED -j DROP", gone: "iptables -D INPUT 1\niptables -t raw -D PREROUTING 1", want: "dropped", says: "--ctstate UNTRACKED -j DROP"},
	{name: "no reply of this node's own backend", to: "10.96.0.32:80", come: "output", nft: "oifname uplink ip daddr 192.0.2.2 tcp dport != 22 drop", want: "dropped", says: "of nftables inet fw gate at hook output takes its replies"},
	{name: "this node's own backend", to: "10.96.0.32:80", come: "output", nft: "oifname pod1 drop", want: "served", says: "served by 10.2.3.1:7000"},
	{name: "a port is closed, and nothing checks it", to: "10.96.0.31:80", want: "served", says: "if it answers", not: true},
	{name: "nobody has the VIP at the end of a tunnel", mode: "ipvs", to: "10.96.0.33:7000", want: "served", says: "if it answers and the backend has 10.96.0.33", not: true},
	{name: "no answer to ARP", to: "192.0.2.80:80", come: "sysctl -qw net.ipv4.conf.uplink.arp_ignore=1", gone: "sysctl -qw net.ipv4.conf.uplink.arp_ignore=0", want: "served", says: "if they answer and another host sends its packets here, as this node does not answer ARP for it", not: true},
	{name: "martian source", come: "ip addr add 192.0.2.2/32 dev pod2", gone: "ip addr del 192.0.2.2/32 dev pod2", want: "dropped", says: "its source 192.0.2.2 is an address of this node"},
}
