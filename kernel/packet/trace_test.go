package packet_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
)

var node = kernel.Node{
	Addrs: []kernel.NodeAddr{
		{Prefix: netip.MustParsePrefix("192.168.1.2/24"), Link: "eth0"},
		{Prefix: netip.MustParsePrefix("fd00:1::2/64"), Link: "eth0"},
	},
	Primary4: netip.MustParseAddr("192.168.1.2"),
}

// sets has one set of each type. S-NET has the only network.
const sets = `
create S-IP hash:ip family inet maxelem 1024
create S-IP6 hash:ip family inet6 maxelem 1024
create S-PORT hash:ip,port family inet maxelem 1024
create S-HAIRPIN hash:ip,port,ip family inet maxelem 1024
create S-NET hash:ip,port,net family inet maxelem 1024
create S-BITMAP bitmap:port range 0-65535
add S-IP 10.0.0.1
add S-IP6 fd00::1
add S-PORT 10.0.0.1,tcp:80
add S-PORT 10.0.0.1,udp:53
add S-PORT 192.0.2.9,tcp:80
add S-HAIRPIN 10.0.0.1,tcp:80,192.0.2.9
add S-NET 10.0.0.1,tcp:80,192.0.2.0/28
add S-NET 10.0.0.1,tcp:80,198.51.100.0/24
add S-BITMAP 80
`

// filtered is a state with these rules in filter FORWARD of both families.
func filtered(t *testing.T, rules string) kernel.State {
	t.Helper()
	o, err := kernel.ParseObserved(strings.TrimSpace(sets) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	o.Sort()
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		o.Chains = append(o.Chains,
			kernel.Chain{Family: f, Table: "filter", Name: "FORWARD", Rules: rules},
			kernel.Chain{Family: f, Table: "filter", Name: "SUB", Rules: "-s 192.0.2.9/32 -j RETURN\n-j DROP"})
	}
	return o.State
}

func parsed(t *testing.T, text string) packet.Packet {
	t.Helper()
	p, err := packet.ParsePacket(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	tcp  = "tcp 192.0.2.9 -> 10.0.0.1:80 in eth0"
	tcp6 = "tcp 2001:db8::9 -> [fd00::1]:80 in eth0"
	udp  = "udp 192.0.2.9 -> 10.0.0.1:53 in eth0"
	sctp = "sctp 192.0.2.9 -> 10.0.0.1:80 in eth0"
	ping = "ping 192.0.2.9 -> 10.0.0.1 in eth0"
)

// Each match holds for the packets that it describes and for no others.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		match   string
		yes, no []string
	}{
		{"-s 192.0.2.0/24", []string{tcp}, []string{"tcp 192.0.3.9 -> 10.0.0.1:80 in eth0", tcp6}},
		{"! -s 192.0.2.0/24", []string{"tcp 192.0.3.9 -> 10.0.0.1:80 in eth0"}, []string{tcp}},
		{"-d 10.0.0.1/32", []string{tcp}, []string{"tcp 192.0.2.9 -> 10.0.0.2:80 in eth0"}},
		{"-i eth0", []string{tcp}, []string{"tcp 192.0.2.9 -> 10.0.0.1:80 in eth01"}},
		{"-i eth+", []string{tcp, "tcp 192.0.2.9 -> 10.0.0.1:80 in eth01"}, []string{"tcp 192.0.2.9 -> 10.0.0.1:80 in veth0"}},
		{"! -i eth+", []string{"tcp 192.0.2.9 -> 10.0.0.1:80 in veth0"}, []string{tcp}},
		{"-p tcp", []string{tcp, tcp6}, []string{udp, sctp, ping}},
		{"-p icmp -m icmp --icmp-type 8", []string{ping}, []string{tcp, udp}},
		{"-m set --match-set S-IP dst", []string{tcp, udp, ping}, []string{"tcp 192.0.2.9 -> 10.0.0.2:80 in eth0", tcp6}},
		{"-m set --match-set S-IP6 dst", []string{tcp6}, []string{tcp}},
		{"-m set --match-set S-PORT dst,dst", []string{tcp, udp}, []string{sctp, ping, "udp 192.0.2.9 -> 10.0.0.1:80 in eth0"}},
		{"-m set ! --match-set S-PORT dst,dst", []string{sctp, ping, tcp6}, []string{tcp, udp}},
		{"-m set --match-set S-PORT src,dst", []string{tcp}, []string{udp}},
		{"-m set --match-set S-HAIRPIN dst,dst,src", []string{tcp}, []string{"tcp 192.0.2.8 -> 10.0.0.1:80 in eth0"}},
		{"-m set --match-set S-NET dst,dst,src", []string{tcp, "tcp 198.51.100.1 -> 10.0.0.1:80 in eth0"}, []string{udp, "tcp 192.0.2.16 -> 10.0.0.1:80 in eth0"}},
		// A bitmap has no addresses and no protocols, and does not match SCTP.
		{"-m set --match-set S-BITMAP dst", []string{tcp, tcp6, "udp 192.0.2.9 -> 10.9.9.9:80 in eth0"}, []string{sctp, ping, udp}},
		{"-m addrtype ! --src-type LOCAL", []string{tcp}, nil},
		{"-m addrtype --dst-type LOCAL", nil, []string{tcp, tcp6}},
		{"-m mark ! --mark 0x4000/0x4000", []string{tcp}, nil},
		{"-m conntrack --ctstate NEW", []string{tcp}, []string{tcp + " established", tcp + " related", tcp + " invalid", tcp + " untracked"}},
		{"-m conntrack --ctstate RELATED,ESTABLISHED", []string{tcp + " established", tcp + " related"}, []string{tcp, tcp + " invalid"}},
		{"-m conntrack --ctstate UNTRACKED,INVALID", []string{tcp + " untracked", tcp + " invalid"}, []string{tcp, tcp + " related"}},
		{"-m physdev ! --physdev-is-in", []string{tcp, "tcp 192.0.2.9 -> 10.0.0.1:80 in br0 port veth1"}, nil}, // no br_netfilter
		{"-m ipvs --vproto 6 --vaddr 10.0.0.1 --vport 80", nil, []string{tcp}},
		{`-m comment --comment "a -j DROP of \"words\"" -p tcp`, []string{tcp}, []string{udp}},
	} {
		for want, texts := range map[packet.Fate][]string{packet.Dropped: c.yes, packet.Forwarded: c.no} {
			for _, text := range texts {
				v, err := packet.Trace(filtered(t, c.match+" -j DROP"), node, parsed(t, text))
				if err != nil || v.Fate != want {
					t.Errorf("%s: %s: %s, %v; want %s\n%s", c.match, text, v, err, want, strings.Join(v.Steps, "\n"))
				}
			}
		}
	}
}

// Chains are walked as xtables does, and marks are set bit by bit.
func TestTargets(t *testing.T) {
	for rules, want := range map[string]packet.Fate{
		"":                                  packet.Forwarded,
		"-j DROP":                           packet.Dropped,
		"-j REJECT --reject-with tcp-reset": packet.Rejected,
		"-j ACCEPT\n-j DROP":                packet.Forwarded,
		"-j RETURN\n-j DROP":                packet.Forwarded, // to the policy
		"-j SUB\n-j REJECT":                 packet.Rejected,  // SUB returns
		"-g SUB\n-j REJECT":                 packet.Forwarded, // to where FORWARD returns
		"-s 192.0.2.9/32\n-j DROP":          packet.Dropped,   // a rule may have no target
		"-j MARK --set-xmark 0x4000/0x4000\n-m mark --mark 0x4000/0x4000 -j DROP":                                   packet.Dropped,
		"-j MARK --set-xmark 0x4000/0x4000\n-j MARK --set-xmark 0x4000/0x0\n-m mark ! --mark 0x4000/0x4000 -j DROP": packet.Dropped,
		"-j MARK --set-xmark 0x4001/0xffffffff\n-m mark --mark 0x4000 -j DROP":                                      packet.Forwarded,
	} {
		v, err := packet.Trace(filtered(t, rules), node, parsed(t, tcp))
		if err != nil || v.Fate != want {
			t.Errorf("%q: %s, %v; want %s\n%s", rules, v, err, want, strings.Join(v.Steps, "\n"))
		}
	}
}

// Anything that is not understood is an error that names the rule, and is never skipped.
func TestRefusals(t *testing.T) {
	for _, rule := range []string{
		"-m recent --remove --name X -j DROP",
		"-m statistic --mode nth --every 2 -j DROP",
		"-m statistic --mode random --probability 1.5 -j DROP",
		"-m bpf --bytecode \"1,6 0 0 1\" -j DROP",
		"-p tcp -m tcp --dport http -j DROP",
		"-p tcp -j DNAT",
		"-p tcp -j DNAT --to-destination 10.0.0.1",
		"-o eth0 -j DROP",
		"-i",
		"-m set --match-set NONE dst -j DROP",
		"-m set --match-set S-PORT dst -j DROP",
		"-m set --match-set S-PORT dst,up -j DROP",
		"-m set --match-set S-PORT dst,dst --update-counters -j DROP",
		"-m addrtype --dst-type ANYCAST -j DROP",
		"-m mark --mark many -j DROP",
		"-m conntrack --ctstate SNAT -j DROP",
		"-m ipvs ! --vport 80 -j DROP",
		"-m ipvs --vdir ORIGINAL -j DROP",
		"-j NONE",
		"-j LOG --log-prefix x",
		"-j MARK --or-mark 0x1",
		"-j MARK",
		"-j",
		"-g ACCEPT",
		"-j CT",
		"-j CT --zone 1",
		"-j FORWARD", // in a circle
	} {
		v, err := packet.Trace(filtered(t, rule), node, parsed(t, tcp))
		if err == nil {
			t.Errorf("%s: %s", rule, v)
		} else if !strings.Contains(err.Error(), "FORWARD") {
			t.Errorf("%s: %v: says not where", rule, err)
		}
	}
}

// balancing is a state with one virtual server for each kind of real server. It filters
// and masquerades only where a rule says so.
func balancing(t *testing.T, more string) kernel.State {
	t.Helper()
	o, err := kernel.ParseObserved(more + `addr add 10.96.0.20/32 dev kube-ipvs0
-A -t 10.96.0.20:80 -s rr
-a -t 10.96.0.20:80 -r 10.2.1.10:8080 -m -w 1
-a -t 10.96.0.20:80 -r 10.2.2.10:8080 -m -w 0
-A -t 10.96.0.20:81 -s rr
-a -t 10.96.0.20:81 -r 192.168.1.2:8080 -m -w 1
-A -t 10.96.0.20:82 -s rr
-A -t 10.96.0.20:83 -s rr
-a -t 10.96.0.20:83 -r 10.2.1.10:80 -g -w 1
`)
	if err != nil {
		t.Fatal(err)
	}
	o.Sort()
	all := func(table, name, rules string) {
		o.Chains = append(o.Chains, kernel.Chain{Family: kernel.IPv4, Table: table, Name: name, Rules: rules})
	}
	all("nat", "PREROUTING", "-j MARK --set-xmark 0x1/0x1")
	all("nat", "OUTPUT", "-j MARK --set-xmark 0x2/0x2")
	all("nat", "POSTROUTING", "-m mark --mark 0x1/0x1 -j MASQUERADE\n-m mark --mark 0x2/0x2 -j MASQUERADE")
	all("filter", "OUTPUT", "-s 10.96.0.20/32 -m ipvs --vproto 6 --vaddr 10.96.0.20 --vport 81 -j DROP")
	return o.State
}

// The paths through the hooks: where IPVS takes a packet, and what it passes after that.
func TestHooks(t *testing.T) {
	for text, want := range map[string]string{
		"tcp 192.0.2.9 -> 10.96.0.20:80 in eth0":             "real 10.2.1.10:8080; masqueraded",
		"tcp 192.0.2.9 -> 10.96.0.20:80 in eth0 established": "real 10.2.1.10:8080, 10.2.2.10:8080 weight 0; source as before",
		"tcp node -> 10.96.0.20:80":                          "real 10.2.1.10:8080; masqueraded",
		// A real server on the node gets received packets directly; packets that the
		// node sends are filtered.
		"tcp 192.0.2.9 -> 10.96.0.20:81 in eth0": "real 192.168.1.2:8080; source kept",
		"tcp node -> 10.96.0.20:81":              "dropped",
		"tcp 192.168.1.2 -> 10.96.0.20:81":       "real 192.168.1.2:8080; masqueraded",
		"tcp 192.0.2.9 -> 10.96.0.20:82 in eth0": "refused",
		"udp 192.0.2.9 -> 10.96.0.20:80 in eth0": "host",
		"ping 192.0.2.9 -> 10.96.0.20 in eth0":   "host",
		"tcp node -> 10.96.0.20:22":              "host",
		"tcp 192.0.2.9 -> 10.2.1.10:80 in eth0":  "forwarded; masqueraded",
		"tcp node -> 10.2.1.10:80":               "forwarded; masqueraded",
		// Packets that the kernel's routing refuses, and packets that IPVS does not
		// send.
		"tcp 127.0.0.1 -> 10.96.0.20:80 in eth0":   "dropped",
		"tcp 10.96.0.20 -> 192.168.1.2:22 in eth0": "dropped",
		"tcp 192.0.2.9 -> 127.0.0.1:22 in eth0":    "dropped",
		"tcp 127.0.0.1 -> 10.96.0.20:80":           "dropped",
		"tcp 127.0.0.1 -> 127.0.0.1:80":            "host",
	} {
		v, err := packet.Trace(balancing(t, ""), node, parsed(t, text))
		if err != nil || v.String() != want {
			t.Errorf("%s: %s, %v; want %s\n%s", text, v, err, want, strings.Join(v.Steps, "\n"))
		}
	}
}

// With vs.conntrack off, MASQUERADE is silently not applied to balanced packets.
func TestWithoutConntrack(t *testing.T) {
	s := balancing(t, "net.ipv4.vs.conntrack = 0\n")
	for text, want := range map[string]string{
		"tcp 192.0.2.9 -> 10.96.0.20:80 in eth0": "real 10.2.1.10:8080; source kept",
		"tcp 192.0.2.9 -> 10.2.1.10:80 in eth0":  "forwarded; masqueraded",
	} {
		if v, err := packet.Trace(s, node, parsed(t, text)); err != nil || v.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, v, err, want)
		}
	}
}

// A VIP is local by its address or by a route. For IPv6 the two differ for packets that
// the node sends.
func TestSource(t *testing.T) {
	vip4, vip6 := netip.MustParseAddr("10.96.0.20"), netip.MustParseAddr("fd00:96::20")
	bound := kernel.State{Addrs: []kernel.Addr{{Addr: vip4, Link: "kube-ipvs0"}, {Addr: vip6, Link: "kube-ipvs0"}}}
	routed := kernel.State{Routes: []kernel.Route{{Addr: vip4}, {Addr: vip6}}}
	for _, c := range []struct {
		state       kernel.State
		to, from    string
		wantForward bool
	}{
		{bound, "10.96.0.20:80", "10.96.0.20", false},
		{bound, "[fd00:96::20]:80", "fd00:96::20", false},
		{routed, "10.96.0.20:80", "10.96.0.20", false},
		{routed, "[fd00:96::20]:80", "fd00:1::2", false},
		{bound, "192.168.1.2:80", "192.168.1.2", false},
		{bound, "127.0.0.1:80", "127.0.0.1", false},
		{bound, "192.0.2.9:80", "192.168.1.2", true},
		{bound, "[2001:db8::9]:80", "fd00:1::2", true},
	} {
		v, err := packet.Trace(c.state, node, parsed(t, "tcp node -> "+c.to))
		if err != nil || v.Steps[0] != "routing: the node sends from "+c.from || (v.Fate == packet.Forwarded) != c.wantForward {
			t.Errorf("%s: %s, %v, %q; want from %s", c.to, v, err, v.Steps, c.from)
		}
	}
	if v, err := packet.Trace(bound, kernel.Node{}, parsed(t, "tcp node -> 192.0.2.9:80")); err == nil {
		t.Errorf("from a node without addresses: %s", v)
	}
}

// Packets that cannot be followed.
func TestImpossible(t *testing.T) {
	for _, p := range []packet.Packet{
		{},
		parsed(t, "tcp 192.0.2.9 -> 10.96.0.20:80"), // sent by the node, from an address that it does not have
		{Proto: kernel.TCP, Dst: netip.MustParseAddrPort("10.96.0.20:80"), In: "eth0"},
		{Proto: kernel.TCP, Dst: netip.MustParseAddrPort("10.96.0.20:80"), Src: netip.MustParseAddrPort("[::1]:1")},
		{Dst: netip.MustParseAddrPort("10.96.0.20:80")},
		{Proto: kernel.TCP, Dst: netip.MustParseAddrPort("10.96.0.20:80"), State: "NEW"},
	} {
		if v, err := packet.Trace(balancing(t, ""), node, p); err == nil {
			t.Errorf("%s: %s", p, v)
		}
	}
}

// A packet reads back from its text, and text that is no packet is refused.
func TestParsePacket(t *testing.T) {
	for _, text := range []string{
		"tcp 192.0.2.9:40000 -> 10.96.0.20:80 in eth0",
		"udp [2001:db8::9]:5353 -> [fd00:96::10]:53 in br0 port veth1 established",
		"tcp 192.0.2.9:40000 -> 10.96.0.20:80 in eth0 established related",
		"ping 192.0.2.9 -> 10.96.0.20 in eth0",
		"ping node -> fd00:96::20",
		"sctp node -> 10.96.0.20:80",
	} {
		if got := parsed(t, text).String(); got != text {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{
		"", "tcp", "tcp a -> b", "icmp node -> 10.0.0.1", "tcp node -> 10.0.0.1", "tcp node 10.0.0.1:80",
		"ping node -> 10.0.0.1:80", "tcp node -> 10.0.0.1:80 in", "tcp node -> 10.0.0.1:80 port veth1", "tcp node -> 10.0.0.1:80 new",
	} {
		if p, err := packet.ParsePacket(text); err == nil {
			t.Errorf("%q: %s", text, p)
		}
	}
}

// The steps say what happened and why.
func TestSteps(t *testing.T) {
	v, err := packet.Trace(filtered(t, "-m set --match-set S-PORT dst,dst -j SUB\n-j DROP"), node, parsed(t, udp))
	if err != nil {
		t.Fatal(err)
	}
	const want = `routing: 10.0.0.1 is elsewhere
filter FORWARD: -m set --match-set S-PORT dst,dst -j SUB: yes, 10.0.0.1,udp:53 is in S-PORT
filter SUB: -s 192.0.2.9/32 -j RETURN: yes, the source is 192.0.2.9
filter FORWARD: -j DROP: yes`
	if got := strings.Join(v.Steps, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
