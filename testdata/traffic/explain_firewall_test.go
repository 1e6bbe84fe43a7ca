package traffic

import (
	"fmt"
	"strings"
	"testing"
)

// What takes packets where the usual tools do not look is named by the first line of `explain`, in both back ends of
// iptables and at every hook of nftables. What cannot be judged is a condition there.
func TestExplainLooksEverywhere(t *testing.T) {
	n := newNode(t, "")
	n.startWays(t)
	if n.legacy(t) {
		t.Skip("legacy tables are another program's only where svcproxy uses those of nftables")
	}
	one := question{host: n.Client, to: "10.96.0.30:80", want: "served"}
	n.asked(t, one)
	const to = " -p tcp --dport 80 -j DROP"
	list := []obstacle{
		{name: "legacy raw", come: "iptables-legacy -t raw -I PREROUTING" + to, gone: "iptables-legacy -t raw -F", want: "dropped", says: "iptables-legacy raw PREROUTING at hook prerouting"},
		{name: "legacy mangle", come: "iptables-legacy -t mangle -I PREROUTING" + to, gone: "iptables-legacy -t mangle -F", want: "dropped", says: "iptables-legacy mangle PREROUTING at hook prerouting"},
		{name: "legacy FORWARD, replies", come: "iptables-legacy -I FORWARD -p tcp --sport 7000 -j DROP", gone: "iptables-legacy -F FORWARD", want: "dropped", says: "iptables-legacy filter FORWARD at hook forward"},
		{name: "security", come: "iptables -t security -I FORWARD -s 10.2.1.10 -j DROP", gone: "iptables -t security -F FORWARD", want: "dropped", says: "security FORWARD at hook forward"},
		{name: "netdev ingress", come: "nft add table netdev t\nnft add chain netdev t c { type filter hook ingress device uplink priority 0; }\nnft add rule netdev t c tcp dport 80 drop", gone: "nft delete table netdev t", want: "dropped", says: "nftables netdev t c at hook ingress"},
		{name: "inet ingress", come: "nft add table inet t\nnft add chain inet t c { type filter hook ingress device uplink priority 0; }\nnft add rule inet t c ip daddr 10.96.0.30 drop", gone: "nft delete table inet t", want: "dropped", says: "nftables inet t c at hook ingress"},
		{name: "ingress of another device", come: "nft add table netdev t\nnft add chain netdev t c { type filter hook ingress device pod2 priority 0; }\nnft add rule netdev t c drop", gone: "nft delete table netdev t", want: "served", says: "10.2.1.10:7000"},
		{name: "egress", come: "nft add table netdev t\nnft add chain netdev t c { type filter hook egress device pod1 priority 0; }\nnft add rule netdev t c ip daddr 10.2.1.10 tcp dport 7000 drop", gone: "nft delete table netdev t", want: "dropped", says: "nftables netdev t c at hook egress"},
		{name: "destination changed before", come: "nft add table ip t\nnft add chain ip t c { type nat hook prerouting priority -110; }\nnft add rule ip t c ip daddr 10.96.0.30 tcp dport 80 dnat to 10.2.2.10:9999", gone: "nft delete table ip t", want: "forwarded", says: "nftables ip t c at hook prerouting sends -t 10.96.0.30:80 to 10.2.2.10:9999"},
		{name: "a rule of nat before ours", come: "iptables -t nat -I PREROUTING -d 10.96.0.30 -p tcp --dport 80 -j DNAT --to-destination 10.2.2.10:9999", gone: "iptables -t nat -D PREROUTING 1", want: "forwarded", says: "nat PREROUTING at hook prerouting sends -t 10.96.0.30:80 to 10.2.2.10:9999"},
		{name: "a rule of nat behind ours", come: "iptables -t nat -A PREROUTING -d 10.96.0.30 -p tcp --dport 80 -j DNAT --to-destination 10.2.2.10:9999", gone: "iptables -t nat -D PREROUTING -d 10.96.0.30 -p tcp --dport 80 -j DNAT --to-destination 10.2.2.10:9999", want: "served", says: "10.2.1.10:7000"},
		{name: "rule about the address behind ours", come: "prerouting", nft: "tcp dport 80 drop", want: "served", says: "10.2.1.10:7000"},
		{name: "rule about the backend behind ours", come: "prerouting", nft: "ip daddr 10.2.1.10 tcp dport 7000 drop", want: "dropped", says: "gate at hook prerouting"},
		{name: "default drop with another link", come: "prerouting", nft: "iifname != { lo, pod1, pod2, pod3 } ct state new tcp dport { 80, 443, 7000 } drop", want: "dropped", says: "gate at hook prerouting"},
		{name: "default drop with other sources", come: "prerouting", nft: "ip saddr != 203.0.113.0/24 tcp dport 7000 drop", want: "dropped", says: "gate at hook prerouting"},
		{name: "verdict map", come: "prerouting", nft: "tcp dport vmap { 22 : accept, 6999-7001 : drop }", want: "dropped", says: "gate at hook prerouting"},
		{name: "set of sources", come: "prerouting", nft: "ip saddr { 10.0.0.0/8, 192.0.2.0-192.0.2.255, 198.51.100.7 } tcp dport 7000 reject with tcp reset", want: "refused", says: "gate at hook prerouting"},
		{name: "state that no packet has", come: "prerouting", nft: "ct state invalid drop; ct state vmap { established : accept, related : accept, untracked : drop }", want: "served", says: "10.2.1.10:7000"},
		{name: "rule of routing, about replies", come: "ip rule add from 10.2.1.0/24 prohibit", gone: "ip rule del from 10.2.1.0/24 prohibit", want: "dropped", says: "no route from 10.2.1.10 to"},
		{name: "rule of routing, about requests", come: "ip rule add iif uplink to 10.2.1.0/24 blackhole", gone: "ip rule del iif uplink to 10.2.1.0/24 blackhole", want: "dropped", says: "by uplink to 10.2.1.10 (blackhole)"},
		{name: "no forwarding where it comes in", come: "sysctl -qw net.ipv4.conf.uplink.forwarding=0", gone: "sysctl -qw net.ipv4.conf.uplink.forwarding=1", want: "dropped", says: "net.ipv4.conf.uplink.forwarding is 0"},
		{name: "a rule that cannot be judged", come: "prerouting", nft: "tcp dport 7000 limit rate over 100/second drop", want: "unsure", says: "nftables inet fw gate accepts it (1 rule it cannot judge)"},
	}
	for _, f := range append(list, moreFaults...) {
		if f.mode == "" || f.mode == modeOf(t) {
			t.Run(f.name, func(t *testing.T) { n.meets(t, one, f) })
		}
	}
	n.gateway(t, one)
	n.asked(t, one)
	n.named(t)
}

// named wants doctor and check to name a rule that keeps every client away, of both back ends.
func (n node) named(t *testing.T) {
	t.Helper()
	n.tool(t, "iptables-legacy", "-t", "raw", "-I", "PREROUTING", "-p", "tcp", "--dport", "80", "-j", "DROP")
	defer n.tool(t, "iptables-legacy", "-t", "raw", "-F")
	const says = "iptables-legacy raw PREROUTING: the rule -p tcp -m tcp --dport 80 -j DROP takes -t 10.96.0.30:80"
	for _, command := range []string{"doctor", "check"} {
		out := n.tool(t, "sh", "-c", fmt.Sprintf("%s %s --config %s/svcproxy.toml 2>&1; true", n.Binary, command, n.Dir))
		if !strings.Contains(out, says) {
			t.Errorf("%s: want %q:\n%s", command, says, out)
		}
	}
}
