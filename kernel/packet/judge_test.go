package packet

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// firewall is a base chain at hook input, and chains of ours.
func firewall(policy, rules string) *Firewall {
	o := &kernel.Observed{Firewall: []kernel.BaseChain{{Hook: "input", Policy: policy, Name: "iptables filter INPUT", Rules: rules}}}
	o.Node.Addrs = []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.168.1.2/24"), Link: "eth0"}, {Prefix: netip.MustParsePrefix("10.2.1.1/24"), Link: "veth1"}}
	ours := func(name, rules string) kernel.Chain {
		return kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: name, Rules: rules}
	}
	o.Chains = []kernel.Chain{
		ours("KUBE-FIREWALL", "-p tcp -j DROP"), ours("KUBE-OPEN", "-p udp -j RETURN\n-j KUBE-MORE"), ours("KUBE-MORE", "-m conntrack --ctstate NEW -j ACCEPT"),
	}
	return NewFirewall(o)
}

// Rules are followed as xtables follows them. What is sure is told, and of the rest every rule that could not be judged.
func TestJudge(t *testing.T) {
	const maybe, mayToo = "-m limit --limit 3/min", "-m recent --rcheck --name BAD"
	for _, c := range []struct{ policy, rules, want string }{
		{"accept", "", "accept"},
		{"drop", "", "drop"},
		{"accept", "-p tcp -j DROP", "drop by -p tcp -j DROP"},
		{"accept", "-p tcp -j REJECT --reject-with tcp-reset", "reject by -p tcp -j REJECT --reject-with tcp-reset"},
		{"accept", "-j REJECT", "reject"},
		{"drop", "-p udp -j ACCEPT\n-p tcp -j ACCEPT", "accept"},
		{"accept", maybe + " -j DROP\n-p tcp -j DROP", "drop by -p tcp -j DROP"},
		{"accept", maybe + " -j DROP\n-p udp -j DROP", "unclear, may drop: " + maybe + "; 1 doubts"},
		{"accept", maybe + " -j ACCEPT\n-p tcp -j DROP", "unclear, may drop: -p tcp; 1 doubts"},
		{"accept", maybe + " -j DROP\n-p tcp -j ACCEPT\n-p tcp -j DROP", "unclear, may drop: " + maybe + "; 1 doubts"},
		{"accept", "-p tcp -j ACCEPT\n-p tcp -j DROP", "accept"},
		{"accept", maybe + " -j ACCEPT", "accept"},
		{"drop", maybe + " -j DROP", "drop"},
		{"drop", maybe + " -j ACCEPT\n" + mayToo + " -j ACCEPT", "unclear, may drop: ; 2 doubts"},
		{"accept", maybe + " -j LOG\n" + maybe, "accept"},
		{"drop", "-j MINE\n-j ACCEPT\n:MINE\n-p udp -j DROP\n-p tcp -j RETURN\n-j DROP", "accept"},
		{"drop", "-g MINE\n-j ACCEPT\n:MINE\n-p udp -j DROP", "drop"},
		{"accept", "-j MINE\n-j ACCEPT\n:MINE\n-p udp -j ACCEPT\n-j DROP", "drop"},
		{"accept", "-i eth0 -j MINE\n:MINE\n-j DROP", "drop by -j DROP in chain MINE"},
		{"accept", maybe + " -j MINE\n:MINE\n-p tcp -j DROP", "unclear, may drop: -p tcp; 1 doubts"},
		{"accept", maybe + " -j MINE\n:MINE\n-j LOG", "accept"},
		{"accept", maybe + " -g MINE\n-j DROP\n:MINE\n-j LOG", "unclear, may drop: ; 1 doubts"},
		{"accept", "-j MINE\n-j DROP\n:MINE\n" + maybe + " -j RETURN\n-j ACCEPT", "unclear, may drop: ; 1 doubts"},
		{"accept", "-j MINE\n:MINE\n-j MINE", "unclear, may unclear: ; 1 doubts"},
		{"accept", "-p tcp -j NFQUEUE --queue-num 1", "unclear, may unclear: -p tcp; 1 doubts"},
		{"accept", "-j MARK --set-xmark 0x1/0x1\n-m mark --mark 0x1/0x1 -j DROP", "drop by -m mark --mark 0x1/0x1 -j DROP"},
		{"accept", maybe + " -j RETURN\n-j MARK --set-xmark 0x1/0x1\n-m mark --mark 0x1/0x1 -j DROP", "unclear, may drop: -m mark --mark 0x1/0x1; 2 doubts"},
		{"accept", "-p tcp -j CT --notrack\n-m conntrack --ctstate UNTRACKED -j DROP", "drop by -m conntrack --ctstate UNTRACKED -j DROP"},
		{"accept", "-p tcp -j CT --helper ftp\n-p udp -j NOTRACK\n-m conntrack --ctstate UNTRACKED -j DROP", "accept"},
		{"drop", maybe + " -j NOTRACK\n-m conntrack --ctstate NEW -j ACCEPT", "unclear, may drop: ; 1 doubts"},
		{"accept", "-p tcp -j DNAT --to-destination 10.2.2.10:9999", "move by -p tcp -j DNAT --to-destination 10.2.2.10:9999 to 10.2.2.10:9999"},
		{"accept", "-p tcp -j REDIRECT --to-ports 8080", "move by -p tcp -j REDIRECT --to-ports 8080"},
		{"accept", "-j TPROXY --on-port 9000 --on-ip 0.0.0.0 --tproxy-mark 0x1/0x1", "move by -j TPROXY --on-port 9000 --on-ip 0.0.0.0 --tproxy-mark 0x1/0x1"},
		{"accept", maybe + " -j DNAT --to-destination 10.2.2.10:9999", "unclear, may move: " + maybe + "; 1 doubts"},
		{"drop", "-j KUBE-FIREWALL\n-j ACCEPT", "accept"}, // what ours drop is followed elsewhere
		{"drop", "-j KUBE-FIREWALL", "drop"},
		{"drop", "-j KUBE-OPEN", "accept"},
		{"drop", maybe + " -j KUBE-OPEN", "unclear, may drop: ; 1 doubts"},
	} {
		f := firewall(c.policy, c.rules)
		r := f.Bases[0].Judge(f.View(Packet{Proto: kernel.TCP, Src: netip.MustParseAddrPort("192.0.2.9:40000"), Dst: netip.MustParseAddrPort("203.0.113.9:80"), In: "eth0"}))
		got := string(r.Effect)
		if r.Effect == Unclear {
			got += fmt.Sprintf(", may %s: %s; %d doubts", r.May, r.MayEnd, len(r.Doubts))
		}
		if r.Rule != "" && r.Effect != Accepts {
			got += " by " + r.Rule
		}
		if r.To.IsValid() {
			got += " to " + r.To.String()
		}
		if got != c.want {
			t.Errorf("%s, policy %s: %s, want %s", strings.ReplaceAll(c.rules, "\n", "; "), c.policy, got, c.want)
		}
	}
}

// shutLines says what is shut of some virtual servers.
func shutLines(f *Firewall, by Passing, virtuals ...kernel.VirtualKey) []string {
	return f.Lines(f.Shut(by, virtuals))
}

// Only what surely keeps every client away is named: by every link on which clients may be.
func TestBlocked(t *testing.T) {
	const named, fine = "named", ""
	for _, c := range []struct{ policy, rules, want string }{
		{"accept", "", fine},
		{"drop", "", named},
		{"drop", "-i lo -j ACCEPT\n-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-p tcp -m tcp --dport 22 -j ACCEPT", named},
		{"drop", "-p tcp -m tcp --dport 80 -j ACCEPT", fine},
		{"drop", "-s 10.0.0.0/8 -j ACCEPT", fine},
		{"drop", "-i eth0 -j ACCEPT", fine},
		{"drop", "-i veth1 -j ACCEPT", fine},
		{"drop", "-i tun0 -j ACCEPT", named},
		{"drop", "-m set --match-set friends src -j ACCEPT", fine},
		{"accept", "-p tcp -m tcp --dport 80 -j DROP", named},
		{"accept", "! -i lo -p tcp -j DROP", named},
		{"accept", "-i eth0 -p tcp -j DROP", fine},
		{"accept", "-i eth+ -p tcp -j DROP\n-i veth1 -j DROP", named},
		{"accept", "! -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j DROP", fine},
		{"accept", "-s 127.0.0.1 -j ACCEPT\n-p udp -j DROP", fine},
		{"accept", "-d 203.0.113.0/24 -j REJECT", named},
		{"drop", "-m mark --mark 0x4000/0x4000 -j ACCEPT", fine}, // KUBE-MARK-MASQ may have marked it
	} {
		web := kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.9:80"), kernel.TCP)
		lines := shutLines(firewall(c.policy, c.rules), ByIPVS, web)
		if (len(lines) > 0) != (c.want == named) {
			t.Errorf("%s, policy %s: %q, want %q", strings.ReplaceAll(c.rules, "\n", "; "), c.policy, lines, c.want)
		}
	}
}

func TestBlockedLines(t *testing.T) {
	key := func(s string) kernel.VirtualKey { return kernel.VirtualAt(netip.MustParseAddrPort(s), kernel.TCP) }
	virtuals := []kernel.VirtualKey{key("10.96.0.1:80"), key("10.96.0.2:80"), key("10.96.0.2:443"), key("[fd00::1]:80"), kernel.MarkKey(kernel.IPv4, 7)}
	o := &kernel.Observed{Firewall: []kernel.BaseChain{
		{Family: kernel.IPv4, Hook: "input", Policy: "drop", Name: "iptables filter INPUT", Rules: "-p tcp --dport 443 -j ACCEPT\n-p tcp --dport 22 -j ACCEPT"},
		{Family: kernel.IPv4, Hook: "output", Policy: "accept", Name: "iptables filter OUTPUT", Rules: "-d 192.0.2.0/24 -j ACCEPT\n-j REJECT"},
		{Family: kernel.IPv6, Hook: "input", Policy: "accept", Name: "ip6tables filter INPUT", Rules: "-p tcp -j REJECT"},
		{Hook: "forward", Policy: "drop", Name: "nftables inet filter forward", Rules: "--ctstate NEW -j ACCEPT"},
		{Hook: "forward", Policy: "drop", Name: "nftables inet that is fine", Rules: "--ctstate RELATED,ESTABLISHED -j ACCEPT"},
		{Hook: "prerouting", Priority: -300, Policy: "accept", Name: "iptables raw PREROUTING", Rules: "-d 10.96.0.1/32 -j DROP"},
		{Hook: "prerouting", Policy: "accept", Name: "nftables inet fw pre", Rules: "-d 10.96.0.2/32 -j DROP"},
		{Hook: "ingress", Links: "eth9", Policy: "drop", Name: "nftables netdev fw nine"},
	}}
	for by, want := range map[Passing]string{
		ByIPVS: `iptables filter INPUT: no rule accepts -t 10.96.0.1:80 and 1 more, they are left to drop
ip6tables filter INPUT: the rule -p tcp -j REJECT takes -t [fd00::1]:80
nftables inet filter forward: no rule accepts -t 10.96.0.1:80 and 3 more, they are left to drop
iptables raw PREROUTING: the rule -d 10.96.0.1/32 -j DROP takes -t 10.96.0.1:80
nftables inet fw pre: the rule -d 10.96.0.2/32 -j DROP takes -t 10.96.0.2:80 and 1 more`,
		// Behind rules of nat the destination is a backend. Requests pass forward, too.
		ByNAT: `nftables inet filter forward: no rule accepts -t 10.96.0.1:80 and 3 more, they are left to drop
nftables inet that is fine: no rule accepts -t 10.96.0.1:80 and 3 more, they are left to drop
iptables raw PREROUTING: the rule -d 10.96.0.1/32 -j DROP takes -t 10.96.0.1:80`,
	} {
		if got := strings.Join(shutLines(NewFirewall(o), by, virtuals...), "\n"); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
	o2 := &kernel.Observed{Firewall: []kernel.BaseChain{{Family: kernel.IPv4, Hook: "input", Policy: "drop", Name: "iptables filter INPUT",
		Rules: "-d 10.96.0.1/32 -j REJECT"}}}
	const each = "iptables filter INPUT: the rule -d 10.96.0.1/32 -j REJECT takes -t 10.96.0.1:80\n" +
		"iptables filter INPUT: no rule accepts -t 10.96.0.2:80 and 1 more, they are left to drop"
	if got := strings.Join(shutLines(NewFirewall(o2), ByIPVS, virtuals...), "\n"); got != each {
		t.Errorf("each ruling has a line:\n%s\nwant:\n%s", got, each)
	}
	if got := shutLines(NewFirewall(o), ByIPVS); got != nil {
		t.Errorf("with nothing served: %q", got)
	}
	if again, err := kernel.ParseObserved(o.String()); err != nil || again.String() != o.String() || len(again.Firewall) != len(o.Firewall) {
		t.Errorf("%v: %s reads back as %s", err, o, again)
	}
}

// A name that no chain of ours has is looked up once.
func TestUnknownChainIsRemembered(t *testing.T) {
	f := firewall("accept", "")
	f.node.rules(kernel.IPv4, "filter", "NOT-OURS")
	if known, asked := f.node.parsed[chainKey{kernel.IPv4, "filter", "NOT-OURS"}]; !asked || known.found {
		t.Errorf("%+v, asked: %t", known, asked)
	}
}
