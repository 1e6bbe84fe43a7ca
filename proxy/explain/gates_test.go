package explain

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/trace"
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

// A firewall that opens an address to some clients only drops those of one client surely, and those of any client
// perhaps. What it drops of all clients is found for any client, too.
func TestRulesForSomeClients(t *testing.T) {
	p := trace.Packet{Proto: kernel.TCP, Src: netip.MustParseAddrPort("192.0.2.254:40000"), Dst: netip.MustParseAddrPort("203.0.113.9:80"), In: "eth0"}
	const open, shut = "accept", "drop"
	for _, c := range []struct {
		rules     []kernel.GateRule
		one, some bool // whether the packet is dropped: of the client that p names, and of any
	}{
		{[]kernel.GateRule{{Verdict: open, Matches: "-s 10.0.0.0/8 -p tcp -m tcp --dport 80"}, {Verdict: shut, Matches: "-p tcp -m tcp --dport 80"}}, true, false},
		{[]kernel.GateRule{{Verdict: shut, Matches: "! -s 10.0.0.0/8 -p tcp -m tcp --dport 80"}}, true, false},
		{[]kernel.GateRule{{Verdict: shut, Matches: "-s 192.0.2.0/24"}}, true, false},
		{[]kernel.GateRule{{Verdict: shut, Matches: "-i eth0 -p tcp"}}, true, false},
		{[]kernel.GateRule{{Verdict: open, Matches: "-i eth1"}, {Verdict: shut}}, true, false},
		{[]kernel.GateRule{{Verdict: shut, Matches: "-p tcp -m tcp --dport 80"}}, true, true},
		{[]kernel.GateRule{{Verdict: open, Matches: "-i lo"}, {Verdict: open, Matches: "-s 127.0.0.0/8"}, {Verdict: open, Matches: "-s 10.0.0.0/8 -p tcp -m tcp --dport 22"}, {Verdict: shut}}, true, true},
		{[]kernel.GateRule{{Verdict: shut, Matches: "! -i lo -p tcp"}}, true, true},
		{[]kernel.GateRule{{Verdict: open, Matches: "-s 127.0.0.1"}, {Verdict: shut, Matches: "-p udp"}}, false, false},
	} {
		f := Facts{Gates: []kernel.Gate{{Hook: "input", Name: "iptables filter INPUT", Rules: c.rules}}}
		f.Kernel.Node.Addrs = []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("203.0.113.9/24"), Link: "eth0"}}
		f.Kernel.Virtuals = []kernel.Virtual{{Key: kernel.VirtualAt(p.Dst, p.Proto), Scheduler: "rr"}}
		one := Explain(f, p)
		f.AnySource = true
		some := Explain(f, p)
		if (one.Fate == Dropped) != c.one || (some.Fate == Dropped) != c.some {
			t.Errorf("%v: one client %s, any %s; want dropped %t, %t", c.rules, one.Fate, some.Fate, c.one, c.some)
		}
	}
}

// The destination of replies to any client is not known either. Packets of the node itself are.
func TestRepliesToSomeClients(t *testing.T) {
	client, backend := netip.MustParseAddrPort("192.0.2.254:40000"), netip.MustParseAddrPort("10.2.1.10:80")
	reply := seen{proto: kernel.TCP, src: backend, dst: client, in: "veth1", out: "eth0", state: "ESTABLISHED", reply: true}
	x := explainer{Facts: Facts{AnySource: true}, p: trace.Packet{Proto: kernel.TCP, Src: client, Dst: netip.MustParseAddrPort("203.0.113.9:80"), In: "eth0"}}
	got := x.ofAny(reply)
	for matches, want := range map[string]holds{
		"-d 10.0.0.0/8": maybe, "-o eth1": maybe, "-o lo": never, "-p tcp --dport 40000": maybe, "-s 10.2.1.10": always, "-i veth1": always, "-i eth1": never,
	} {
		if h := got.matches(matches, kernel.IPv4); h != want {
			t.Errorf("%s: %d, want %d", matches, h, want)
		}
	}
	x.p.In = ""
	if x.ofAny(reply) != reply {
		t.Error("the node's own packet is of any client")
	}
}
