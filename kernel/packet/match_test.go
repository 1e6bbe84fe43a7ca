package packet

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// answers are the letters of a table: yes, no, ? for what cannot be told.
var answers = map[Answer]byte{Yes: 'y', No: 'n', Unknown: '?'}

// Each option, in both of its forms, about three packets: the first of a client's connection, of which all but the
// link that it leaves by is known; the reply, of which the source is not known; and one of any client.
func TestEachOption(t *testing.T) {
	client, vip := netip.MustParseAddrPort("192.0.2.9:40000"), netip.MustParseAddrPort("203.0.113.9:80")
	o := kernel.Observed{}
	o.Node.Addrs = []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("203.0.113.9/24"), Link: "eth0"}}
	node := &Node{State: &o.State, Facts: o.Node}
	views := []View{
		{Packet: Packet{Proto: kernel.TCP, Src: client, Dst: vip, In: "eth0", Mark: 0x4007}, Unknown: Out, Node: node},
		{Packet: Packet{Proto: kernel.TCP, Src: vip, Dst: client, In: "veth1"}, Unknown: Out | Source | Mark, Reply: true, Node: node},
		{Packet: Packet{Proto: kernel.TCP, Dst: vip}, Unknown: Source | In | Out, Outside: true, Node: node},
	}
	for _, c := range []struct{ matches, want string }{
		{"", "yyy"},
		{"-p tcp", "yyy"},
		{"-p 6", "yyy"},
		{"-p all", "yyy"},
		{"-p 17", "nnn"},
		{"! -p udp", "yyy"},
		{"-p udp,tcp", "yyy"},
		{"-p nonsense", "???"},
		{"--nfproto ipv4", "yyy"},
		{"--nfproto ipv6", "nnn"},
		{"! --nfproto ipv6", "yyy"},
		{"-s 192.0.2.0/24", "y??"},
		{"-s 192.0.2.9", "y??"},
		{"! -s 192.0.2.0/24 -p tcp", "n??"},
		{"-s 10.0.0.0/8,192.0.2.0/24", "y??"},
		{"-s 127.0.0.0/8", "n?n"},
		{"! -s 127.0.0.0/8", "y?y"},
		{"-s nobody", "???"},
		{"-d 203.0.113.9", "yny"},
		{"! -d 203.0.113.9/32", "nyn"},
		{"-d 2001:db8::/32", "nnn"},
		{"-m iprange --src-range 192.0.2.1-192.0.2.9", "y??"},
		{"-m iprange ! --src-range 192.0.2.1-192.0.2.8", "y??"},
		{"-m iprange --dst-range 192.0.2.1,203.0.113.8-203.0.113.10", "yny"},
		{"-m iprange --dst-range ::1-::9", "nnn"},
		{"-m iprange --dst-range 1-2", "???"},
		{"-i eth0", "yn?"},
		{"-i eth+", "yn?"},
		{"! -i eth+", "ny?"},
		{"-i lo", "nnn"},
		{"! -i lo", "yyy"},
		{"-i lo,eth0", "yn?"},
		{"-o eth1", "???"},
		{"-o lo", "??n"},
		{"-p tcp -m tcp --dport 80", "yny"},
		{"-p tcp -m tcp ! --dport 80", "nyn"},
		{"-p tcp -m tcp --dport 79:81", "yny"},
		{"-p tcp -m tcp --dport 80:", "yyy"},
		{"-p tcp -m tcp --dport :79", "nnn"},
		{"--dport 22,79:81", "yny"},
		{"-p udp -m udp --dport 80", "nnn"},
		{"-p tcp -m tcp --sport 80", "n??"},
		{"-p tcp -m multiport --dports 22,443", "nnn"},
		{"-p tcp -m multiport --dports 22,80", "yny"},
		{"-p tcp -m multiport ! --dports 22,443", "yyy"},
		{"-p tcp -m multiport --sports 40000", "y??"},
		{"-p tcp -m multiport --ports 80", "y?y"},
		{"-p tcp -m tcp --dport http", "???"},
		{"-m conntrack --ctstate NEW", "yny"},
		{"-m conntrack ! --ctstate NEW", "nyn"},
		{"-m state --state RELATED,ESTABLISHED", "nyn"},
		{"-m conntrack --ctstate INVALID", "nnn"},
		{"-m conntrack --ctstate DNAT", "???"},
		{"-m conntrack ! --ctstate SNAT", "???"},
		{"-m conntrack --ctstate NEW,DNAT", "y?y"},
		{"-m conntrack ! --ctstate NEW,DNAT", "n?n"},
		{"-m conntrack --ctstate ODD", "???"},
		{"-m conntrack --ctorigdst 203.0.113.9", "???"},
		{"-m mark --mark 0x4000/0x4000", "y?n"},
		{"-m mark ! --mark 0x4000/0x4000", "n?y"},
		{"-m mark --mark 0x4007", "y?n"},
		{"-m mark --mark many", "???"},
		{"-m connmark --mark 0x4007", "???"},
		{"-p tcp -m tcp --syn", "yny"},
		{"-p tcp -m tcp ! --syn", "nyn"},
		{"-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN", "yny"},
		{"-p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m conntrack --ctstate NEW", "nnn"},
		{"-p tcp -m tcp --tcp-flags SYN,ACK SYN,ACK", "nyn"},
		{"-p tcp -m tcp --tcp-flags ALL NONE", "nnn"},
		{"-m addrtype --dst-type LOCAL", "yny"},
		{"-m addrtype ! --dst-type LOCAL", "nyn"},
		{"-m addrtype --src-type LOCAL", "n?n"},
		{"-m addrtype --dst-type MULTICAST", "nnn"},
		{"-m addrtype --dst-type BROADCAST,MULTICAST", "nnn"},
		{"-m addrtype --dst-type ANYCAST", "???"},
		{"-m addrtype --limit-iface-in", "???"},
		{"-m physdev --physdev-is-in", "nnn"},
		{"-p icmp -m icmp --icmp-type 8", "nnn"},
		{"-m set --match-set friends src", "???"},
		{"-m set ! --match-set friends src,dst", "???"},
		{"-m set --match-set friends up", "???"},
		{"-m recent --rcheck --name BAD", "???"},
		{"-m recent --update --seconds 60 --hitcount 4 --name BAD --mask 255.255.255.255 --rsource", "???"},
		{"-m statistic --mode random --probability 0.5", "???"},
		{"-m statistic --mode nth --every 2", "???"},
		{"-m ipvs --vport 80", "???"},
		{"-m ipvs ! --vport 80", "???"},
		{`-m bpf --bytecode "1,6 0 0 1"`, "???"},
		{"-m limit --limit 3/min -p tcp", "???"},
		{"-m limit --limit 3/min -p udp", "nnn"},
		{"! -m limit", "???"},
		{"-m string --string \"-p udp\" --algo bm", "???"},
		{"-m unread", "???"},
		{`-m comment --comment "-p udp" -p tcp`, "yyy"},
	} {
		r := ParseRule(strings.TrimSpace(c.matches + " -j ACCEPT"))
		if r.Target != "ACCEPT" {
			t.Errorf("%s: target %q", c.matches, r.Target)
		}
		got := ""
		for i := range views {
			got += string(answers[r.Match(&views[i])])
			if a, why := r.explain(&views[i]); a != r.Match(&views[i]) || why == "" {
				t.Errorf("%s: %s because %q", c.matches, a, why)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.matches, got, c.want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, text := range []string{"-s 10.0.0.0/8 -p tcp -m tcp ! --dport 80:81 -j DNAT --to-destination 10.0.0.1:80",
		`-m comment --comment "a \" b" -m bpf --bytecode "1,6 0 0 1" -j X`, "! -i lo -g Y", "-j MARK --set-xmark 0x1/0x1"} {
		f.Add(text)
	}
	o := kernel.Observed{}
	node := &Node{State: &o.State}
	f.Fuzz(func(t *testing.T, text string) {
		r := ParseRule(text)
		for _, v := range []View{{}, {Node: node}, {Packet: Packet{Proto: kernel.TCP, Dst: netip.MustParseAddrPort("[::1]:80"), In: "lo"}, Node: node}} {
			if a := r.Match(&v); a > Yes {
				t.Errorf("%q: %d", text, a)
			}
			r.explain(&v)
		}
	})
}
