package iptables

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// firewall returns the base chains of a reading in canonical text.
func firewall(t *testing.T, b backend) string {
	t.Helper()
	if _, err := b.Read(t.Context(), kernel.DefaultNames); err != nil {
		t.Fatal(err)
	}
	found, err := b.Firewall(kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll((&kernel.Observed{Firewall: found}).String(), "#: ", "")
}

// Base chains that may drop packets are found in every table and family, those of iptables once. A reading after no
// change runs no tool. The tables of nft are read by google/nftables.
func TestKernelFirewall(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	eachBackend(t, func(t *testing.T, b backend) {
		if got := firewall(t, b); got != "" {
			t.Errorf("in an empty namespace:\n%s", got)
		}
		kerneltest.Run(t, named("iptables", b.name), "-P", "INPUT", "DROP")
		kerneltest.Run(t, named("iptables", b.name), "-A", "INPUT", "-p", "tcp", "--dport", "22", "-j", "ACCEPT")
		kerneltest.Run(t, named("ip6tables", b.name), "-A", "OUTPUT", "-j", "REJECT")
		kerneltest.Run(t, named("iptables", b.name), "-t", "mangle", "-A", "PREROUTING", "-p", "tcp", "--dport", "80", "-j", "DROP")
		for line := range strings.Lines(nftTables) {
			kerneltest.Run(t, "nft", strings.Fields(line)...)
		}
		want := nftFirewall
		if b.name == "nft" { // a table that has no chains of ours is not read by the tool
			want = strings.Replace(want, "firewall ipv4 prerouting -110", "firewall ipv4 prerouting -150 accept nftables ip mangle PREROUTING\n"+
				"rule -p tcp --dport 80 -j DROP\nfirewall ipv4 prerouting -110", 1)
		}
		if got := firewall(t, b); got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
		before := b.Stats()
		if got := firewall(t, b); got != want || b.Stats() != before {
			t.Errorf("read again, with %+v after %+v:\n%s", b.Stats(), before, got)
		}
		kerneltest.Run(t, "nft", "flush", "ruleset")
		kerneltest.Run(t, named("iptables", b.name), "-P", "INPUT", "ACCEPT")
		kerneltest.Run(t, named("ip6tables", b.name), "-F", "OUTPUT")
		if got := firewall(t, b); got != "" {
			t.Errorf("when all are gone:\n%s", got)
		}
	})
}

// All tables of both back ends, and the elements of named sets, are in the whole firewall.
func TestKernelWholeFirewall(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"), kerneltest.Tool("iptables-nft"), kerneltest.Tool("iptables-legacy"))
	for _, name := range backends {
		t.Run(name, func(t *testing.T) {
			kerneltest.NewNamespace(t)
			if os.Geteuid() != 0 {
				t.Skip("only root may read which tables there are")
			}
			b, err := Open(t.Context(), Options{Find: func(tool string) (string, error) {
				if strings.Contains(tool, "tables-save") || !strings.Contains(tool, "-") {
					tool = named(tool, name)
				}
				return find(tool)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			wantWhole(t, b)
		})
	}
}

// wantWhole wants what several programs have written in the whole firewall.
func wantWhole(t *testing.T, b *Tables) {
	t.Helper()
	kerneltest.Run(t, "iptables-legacy", "-t", "raw", "-A", "PREROUTING", "-m", "comment", "--comment", "a -j b", "-s", "203.0.113.7", "-j", "DROP")
	kerneltest.Run(t, "iptables-nft", "-t", "security", "-A", "FORWARD", "-i", "eth0", "-j", "DROP")
	kerneltest.Run(t, "iptables-nft", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "80", "-j", "DNAT", "--to-destination", "10.2.2.10:9999")
	kerneltest.Run(t, "iptables-nft", "-t", "nat", "-A", "POSTROUTING", "-j", "MASQUERADE")
	for line := range strings.Lines(`add table inet fw
			add chain inet fw in { type filter hook input priority 0; }
			add set inet fw ports { type inet_service; flags interval; elements = { 22, 79-81 }; }
			add set inet fw late { type ipv4_addr; flags timeout; }
			add rule inet fw in tcp dport @ports drop
			add rule inet fw in ip saddr @late drop`) {
		kerneltest.Run(t, "nft", strings.Fields(line)...)
	}
	found, err := b.WholeFirewall(t.Context(), kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll((&kernel.Observed{Firewall: found}).String(), "#: ", "")
	for _, name := range []string{"-legacy", "-nft"} {
		got = strings.ReplaceAll(got, "iptables"+name, "iptables")
	}
	want := `firewall ipv4 prerouting -300 accept iptables raw PREROUTING
rule -s 203.0.113.7/32 -j DROP
firewall ipv4 prerouting -100 accept iptables nat PREROUTING
rule -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.2.2.10:9999
firewall any input 0 accept nftables inet fw in
rule -p tcp --dport 22,79:81 -j DROP
rule --nfproto ipv4 -m unread -j DROP
firewall ipv4 forward 50 accept iptables security FORWARD
rule -i eth0 -j DROP
`
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// nftTables are commands of nft, one a line.
const nftTables = `add table inet fw
add table bridge br
add chain inet fw in { type filter hook input priority 0; policy drop; }
add chain inet fw through { type filter hook forward priority 0; policy accept; }
add chain inet fw plain
add rule inet fw plain udp sport 53 return
add set inet fw ports { type inet_service; }
add rule inet fw in ct state established,related accept
add rule inet fw in ct state != { new, untracked } accept
add rule inet fw in ct state vmap { established : accept, invalid : drop }
add rule inet fw in iif lo accept
add rule inet fw in iifname != lo counter accept
add rule inet fw in iifname eth* accept
add rule inet fw in tcp dport 22 accept
add rule inet fw in ip protocol icmp accept
add rule inet fw in meta l4proto ipv6-icmp accept
add rule inet fw in tcp dport @ports accept
add rule inet fw in tcp dport 8000-8080 accept
add rule inet fw in tcp dport != 8000-8080 accept
add rule inet fw in tcp dport { 80, 443, 8000-8080 } accept
add rule inet fw in tcp flags & (fin | syn | rst | ack) == syn accept
add rule inet fw in meta mark & 0xff == 0x7 accept
add rule inet fw in meta mark set 0x7 accept
add rule inet fw in fib daddr type local accept
add rule inet fw in ip saddr . tcp dport { 10.0.0.1 . 80 } accept
add rule inet fw in ip6 saddr { fd00::/8, 2001:db8::1 } accept
add rule inet fw in ip saddr != 10.0.0.1-10.0.0.9 accept
add rule inet fw in meta l4proto { tcp, udp } accept
add rule inet fw in tcp dport vmap { 79-81 : drop, 443 : goto plain }
add rule inet fw in ip saddr 192.0.2.0/24 jump plain
add rule inet fw in ip saddr 10.32.0.0/11 limit rate 1/second accept
add rule inet fw in counter log drop
add rule inet fw in accept
add rule inet fw through reject
add chain bridge br in { type filter hook input priority 0; policy drop; }
add table ip nat2
add chain ip nat2 pre { type nat hook prerouting priority -110; }
add rule ip nat2 pre ip daddr 198.51.100.1 tcp dport 80 dnat to 10.2.2.10:9999
add rule ip nat2 pre udp dport 53 redirect to :5353
add chain ip nat2 late { type filter hook prerouting priority 5; }
add rule ip nat2 late socket transparent 1 drop
add rule ip nat2 late meta l4proto tcp tproxy to :9000
add table ip6 raw6
add chain ip6 raw6 pre { type filter hook prerouting priority -300; policy drop; }
add table netdev early
add chain netdev early in { type filter hook ingress device lo priority 7; }
add rule netdev early in ip saddr 192.0.2.1 drop
`

// nftFirewall is how nftTables, and what iptables has, are read.
const nftFirewall = `firewall ipv6 prerouting -300 drop nftables ip6 raw6 pre
firewall ipv4 prerouting -110 accept nftables ip nat2 pre
rule -d 198.51.100.1/32 -p tcp --dport 80 -j DNAT --to-destination 10.2.2.10:9999
rule -p udp --dport 53 -j REDIRECT --to-ports 5353
firewall ipv6 output 0 accept ip6tables filter OUTPUT
rule -j REJECT --reject-with icmp6-port-unreachable
firewall ipv4 input 0 drop iptables filter INPUT
rule -p tcp -m tcp --dport 22 -j ACCEPT
firewall any bridge-input 0 drop nftables bridge br in
firewall any input 0 drop nftables inet fw in
rule --ctstate ESTABLISHED,RELATED -j ACCEPT
rule ! --ctstate NEW,UNTRACKED -j ACCEPT
rule --ctstate INVALID -j DROP
rule --ctstate ESTABLISHED -j ACCEPT
rule -i lo -j ACCEPT
rule ! -i lo -j ACCEPT
rule -i eth+ -j ACCEPT
rule -p tcp --dport 22 -j ACCEPT
rule --nfproto ipv4 -p icmp -j ACCEPT
rule -p ipv6-icmp -j ACCEPT
rule -p tcp -m unread -j ACCEPT
rule -p tcp --dport 8000:8080 -j ACCEPT
rule -p tcp ! --dport 8000:8080 -j ACCEPT
rule -p tcp --dport 80,443,8000:8080 -j ACCEPT
rule -p tcp --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT
rule -m mark --mark 0x7/0xff -j ACCEPT
rule -j MARK --set-xmark 0x7/0xffffffff
rule -j ACCEPT
rule -m addrtype --dst-type LOCAL -j ACCEPT
rule --nfproto ipv4 -p tcp -m unread -j ACCEPT
rule --nfproto ipv6 -m iprange --src-range 2001:db8::1,fd00::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff -j ACCEPT
rule --nfproto ipv4 -m iprange ! --src-range 10.0.0.1-10.0.0.9 -j ACCEPT
rule -p tcp,udp -j ACCEPT
rule -p tcp --dport 79:81 -j DROP
rule -p tcp --dport 443 -g plain
rule --nfproto ipv4 -s 192.0.2.0/24 -j plain
rule --nfproto ipv4 -s 10.32.0.0/11 -m unread -j ACCEPT
rule -j DROP
rule -j ACCEPT
rule :plain
rule -p udp --sport 53 -j RETURN
firewall any forward 0 accept nftables inet fw through
rule -j REJECT
firewall ipv4 prerouting 5 accept nftables ip nat2 late
rule -m unread -j DROP
rule -p tcp -j TPROXY
firewall any ingress:lo 7 accept nftables netdev early in
rule --nfproto ipv4 -s 192.0.2.1/32 -j DROP
`

// A rule becomes the words of iptables. Expressions that are unknown here keep it from counting as a
// rule for all packets.
func TestWords(t *testing.T) {
	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	for _, test := range []struct {
		rule []expr.Any
		want string
	}{
		{[]expr.Any{&expr.Counter{}, accept}, "-j ACCEPT"},
		{[]expr.Any{&expr.Limit{}, accept}, "-m unread -j ACCEPT"},
		{[]expr.Any{&expr.Meta{Key: expr.MetaKeySKUID}, &expr.Cmp{Data: []byte{0, 0, 0, 0}}, accept}, "-m unread -j ACCEPT"},
		// A socket expression, which the library leaves out, loads what is compared.
		{[]expr.Any{&expr.Cmp{Data: []byte{1}}, accept}, "-m unread -j ACCEPT"},
		{[]expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO}, &expr.Cmp{Data: []byte{132}}, &expr.Reject{}}, "-p sctp -j REJECT"},
		{[]expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: "more"}}, "-j more"},
		{[]expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}, "-j RETURN"},
	} {
		if got := strings.Join((&nftRule{link: linkName}).read(test.rule), "\n"); got != test.want {
			t.Errorf("%v: %q, want %q", test.rule, got, test.want)
		}
	}
}

// The element of a verdict map for all other values has no key. It is the last line, and none of an interval's ends.
func TestElementForAllOthers(t *testing.T) {
	word := func(code int32) []byte { // NFTA_VERDICT_CODE
		a := binary.NativeEndian.AppendUint16([]byte(nil), 8)
		a = binary.NativeEndian.AppendUint16(a, unix.NFTA_VERDICT_CODE)
		return binary.BigEndian.AppendUint32(a, uint32(code))
	}
	const accept, drop, next = 1, 0, -1
	name := func(s string) []byte { return append([]byte(s), make([]byte, 16-len(s))...) }
	for _, c := range []struct {
		key      expr.MetaKey
		interval bool
		raw      []nftables.SetElement
		want     string
	}{
		{expr.MetaKeyIIFNAME, false, []nftables.SetElement{{Val: word(drop)}, {Key: name("eth0"), Val: word(accept)}},
			"-i eth0 -j ACCEPT\n-j DROP"},
		{expr.MetaKeyIIFNAME, false, []nftables.SetElement{{Val: word(drop)}, {Key: name("eth0"), Val: word(next)}},
			"-m unread -j DROP"},
		{expr.MetaKeyL4PROTO, true, []nftables.SetElement{{Key: []byte{0}, IntervalEnd: true}, {Val: word(drop)},
			{Key: []byte{6}, Val: word(accept)}, {Key: []byte{7}, IntervalEnd: true}}, "-p tcp -j ACCEPT\n-j DROP"},
	} {
		r := nftRule{link: linkName, elements: func(string) ([]element, bool) { return inOrder(c.raw, c.interval), true }}
		got := strings.Join(r.read([]expr.Any{&expr.Meta{Key: c.key}, &expr.Lookup{IsDestRegSet: true}}), "\n")
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.raw, got, c.want)
		}
	}
}

// An option is negated, not what looks like one in the name of a link.
func TestNegated(t *testing.T) {
	for text, want := range map[string]string{
		"-i br--lan":                   "! -i br--lan",
		"-p tcp":                       "! -p tcp",
		"--ctstate NEW":                "! --ctstate NEW",
		"-m mark --mark 0x7/0xff":      "-m mark ! --mark 0x7/0xff",
		"-m addrtype --dst-type LOCAL": "-m addrtype ! --dst-type LOCAL",
		"":                             "-m unread",
	} {
		var r nftRule
		if r.matched(true, text); r.matches[0] != want {
			t.Errorf("%q: %q, want %q", text, r.matches[0], want)
		}
	}
}

// An error in one chain is not lost by a chain that is read behind it.
func TestKernelFirstErrorIsKept(t *testing.T) {
	kerneltest.NewNamespace(t)
	c, err := new(nl.Dialer).Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	conn, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &nftReader{conn: conn, stamp: &nftStamp{conn: c}, table: nftTable{nftables.TableFamilyINet, "fw"},
		rules: map[string][]string{"two": nil}, err: unix.ENOENT}
	if lines, found := r.chain("two"); !found || len(lines) > 0 || r.err != unix.ENOENT {
		t.Errorf("%q, %t: %v", lines, found, r.err)
	}
}
