package explain

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// A packet that surely meets a rule is lost, also if one before it may have held. One that may be accepted before is not.
func TestWhichRuleDecides(t *testing.T) {
	p := seen{proto: kernel.TCP, src: netip.MustParseAddrPort("192.0.2.9:40000"), dst: netip.MustParseAddrPort("203.0.113.9:80"), in: "eth0", state: "NEW"}
	drop := func(matches string) kernel.GateRule { return kernel.GateRule{Matches: matches, Verdict: "drop"} }
	accept := func(matches string) kernel.GateRule { return kernel.GateRule{Matches: matches, Verdict: "accept"} }
	const maybe = "-m limit --limit 3/min"
	for _, c := range []struct {
		rules []kernel.GateRule
		want  string // the matches of the rule
		sure  bool
	}{
		{rules: []kernel.GateRule{drop("-p tcp")}, want: "-p tcp", sure: true},
		{rules: []kernel.GateRule{drop(maybe), drop("-p tcp")}, want: "-p tcp", sure: true},
		{rules: []kernel.GateRule{drop(maybe), drop("-p udp")}, want: maybe},
		{rules: []kernel.GateRule{accept(maybe), drop("-p tcp")}, want: "-p tcp"},
		{rules: []kernel.GateRule{drop(maybe), accept("-p tcp"), drop("-p tcp")}, want: maybe},
		{rules: []kernel.GateRule{accept("-p tcp"), drop("-p tcp")}},
	} {
		if r, sure := p.decides(c.rules, kernel.IPv4); r.Matches != c.want || sure != c.sure {
			t.Errorf("%v: %q, surely %t; want %q, %t", c.rules, r.Matches, sure, c.want, c.sure)
		}
	}
}

// What matches say of the first packet of a connection, and of a reply.
func TestRulesOfOtherPrograms(t *testing.T) {
	client, vip := netip.MustParseAddrPort("192.0.2.9:40000"), netip.MustParseAddrPort("203.0.113.9:80")
	first := seen{proto: kernel.TCP, src: client, dst: vip, in: "eth0", state: "NEW"}
	reply := seen{proto: kernel.TCP, src: vip, dst: client, in: "veth1", state: "ESTABLISHED", reply: true, moved: true}
	for _, c := range []struct {
		matches      string
		first, reply holds
	}{
		{"", always, always},
		{"-p tcp", always, always},
		{"-p 17", never, never},
		{"! -p udp", always, always},
		{"-s 192.0.2.0/24", always, never},
		{"! -s 192.0.2.0/24 -p tcp", never, always},
		{"-d 203.0.113.9", always, maybe},
		{"-i eth+", always, never},
		{"-o eth1", maybe, maybe},
		{"-p tcp -m tcp --dport 79:81", always, maybe},
		{"-p tcp -m tcp --sport 80", never, always},
		{"-p tcp -m multiport --dports 22,443", never, maybe},
		{"-p tcp -m tcp --dport http", maybe, maybe},
		{"-m conntrack --ctstate INVALID", never, never},
		{"-m conntrack --ctstate DNAT", maybe, maybe},
		{"-m conntrack ! --ctstate SNAT", maybe, maybe},
		{"-m conntrack --ctstate NEW,DNAT", always, maybe},
		{"-m conntrack ! --ctstate NEW,DNAT", never, maybe},
		{"-m state --state RELATED,ESTABLISHED", never, always},
		{"-p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m conntrack --ctstate NEW", never, never},
		{"-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK", never, always},
		{"-p tcp -m tcp --tcp-flags ALL NONE", never, never},
		{"--nfproto ipv4", always, always},
		{"--nfproto ipv6", never, never},
		{"-m limit --limit 3/min -p tcp", maybe, maybe},
		{"-m physdev --physdev-is-in -p udp", never, never},
		{"-m set --match-set BAD src -p udp", never, never},
		{"-m unread", maybe, maybe},
		{`-m comment --comment "-p udp" -p tcp`, always, always},
	} {
		if got := first.matches(c.matches, kernel.IPv4); got != c.first {
			t.Errorf("%s: %d for the first packet, want %d", c.matches, got, c.first)
		}
		if got := reply.matches(c.matches, kernel.IPv4); got != c.reply {
			t.Errorf("%s: %d for the reply, want %d", c.matches, got, c.reply)
		}
	}
}
