package iptables

import (
	"strings"
	"testing"

	"github.com/google/nftables/expr"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// firewall returns the barriers of a reading in canonical text.
func firewall(t *testing.T, b backend) string {
	t.Helper()
	if _, err := b.Read(t.Context(), kernel.DefaultNames); err != nil {
		t.Fatal(err)
	}
	found, err := b.Barriers()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll((&kernel.Observed{Firewall: found}).String(), "#: ", "")
}

// Policies that drop are found in every table, those of iptables once. A reading after no change runs
// no tool. The tables of nft are read by google/nftables.
func TestKernelBarriers(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	eachBackend(t, func(t *testing.T, b backend) {
		if got := firewall(t, b); got != "" {
			t.Errorf("in an empty namespace:\n%s", got)
		}
		kerneltest.Run(t, named("iptables", b.name), "-P", "INPUT", "DROP")
		kerneltest.Run(t, named("iptables", b.name), "-A", "INPUT", "-p", "tcp", "--dport", "22", "-j", "ACCEPT")
		kerneltest.Run(t, named("ip6tables", b.name), "-A", "OUTPUT", "-j", "REJECT")
		kerneltest.Run(t, named("iptables", b.name), "-P", "FORWARD", "DROP")
		kerneltest.Run(t, named("iptables", b.name), "-t", "mangle", "-A", "PREROUTING", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
		for _, nft := range []string{
			"add table inet fw", "add table bridge br",
			"add chain inet fw in { type filter hook input priority 0; policy drop; }",
			"add chain inet fw through { type filter hook forward priority 0; policy accept; }",
			"add chain inet fw plain",
			"add set inet fw ports { type inet_service; }",
			"add rule inet fw in ct state established,related accept",
			"add rule inet fw in ct state vmap { established : accept, invalid : drop }",
			"add rule inet fw in iif lo accept",
			"add rule inet fw in iifname lo counter accept",
			"add rule inet fw in tcp dport 22 accept",
			"add rule inet fw in ip protocol icmp accept",
			"add rule inet fw in meta l4proto ipv6-icmp accept",
			"add rule inet fw in tcp dport @ports accept",
			"add rule inet fw in tcp dport 8000-8080 accept",
			"add rule inet fw in ip saddr 192.0.2.0/24 jump plain",
			"add rule inet fw in counter log drop",
			"add rule inet fw in accept", // no packet gets here
			"add rule inet fw through reject",
			"add chain bridge br in { type filter hook input priority 0; policy drop; }",
			// This chain drops by rules with matches only, so it is no barrier.
			"add table ip nat2", "add chain ip nat2 pre { type filter hook prerouting priority 5; }",
			"add rule ip nat2 pre socket transparent 1 drop", "add rule ip nat2 pre ip saddr 10.0.0.1-10.0.0.9 limit rate 1/second drop",
			"add table ip6 raw6", "add chain ip6 raw6 pre { type filter hook prerouting priority -300; policy drop; }",
		} {
			kerneltest.Run(t, "nft", strings.Fields(nft)...)
		}
		want := `barrier ipv4 input drop iptables filter INPUT
accepts -p tcp -m tcp --dport 22
barrier ipv6 output reject ip6tables filter OUTPUT
barrier any input drop nftables inet fw in
accepts --ctstate ESTABLISHED,RELATED
accepts --ctstate RELATED,ESTABLISHED
accepts -i lo
accepts -i lo
accepts -p tcp --dport 22
accepts --nfproto ipv4 -p icmp
accepts -p ipv6-icmp
accepts -p tcp -m unread
accepts -p tcp -m unread -m unread
accepts --nfproto ipv4 -s 192.0.2.0/24 -m unread
barrier any forward reject nftables inet fw through
barrier ipv6 prerouting drop nftables ip6 raw6 pre
`
		if got := firewall(t, b); got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
		before := b.Stats()
		if got := firewall(t, b); got != want || b.Stats() != before {
			t.Errorf("read again, with %+v after %+v:\n%s", b.Stats(), before, got)
		}
		kerneltest.Run(t, "nft", "delete", "table", "inet", "fw")
		kerneltest.Run(t, "nft", "delete", "table", "ip6", "raw6")
		kerneltest.Run(t, named("iptables", b.name), "-P", "INPUT", "ACCEPT")
		kerneltest.Run(t, named("ip6tables", b.name), "-F", "OUTPUT")
		if got := firewall(t, b); got != "" {
			t.Errorf("when all are gone:\n%s", got)
		}
	})
}

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
		{[]expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: "more"}}, "-m unread -j ACCEPT"},
		{[]expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}, "-j RETURN"},
	} {
		if got := words(test.rule); got != test.want {
			t.Errorf("%v: %q, want %q", test.rule, got, test.want)
		}
	}
}
