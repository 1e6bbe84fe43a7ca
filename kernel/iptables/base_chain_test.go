package iptables

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

// firewall is what the Barriers of a reading are in canonical text.
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

// Policies are found wherever they are, iptables' own once, and a reading that
// finds nothing changed runs nothing.
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
			"add rule inet fw in accept", // never met
			"add rule inet fw through reject",
			"add chain bridge br in { type filter hook input priority 0; policy drop; }",
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
accepts -m unread -p icmp
accepts -p ipv6-icmp
accepts -p tcp -m unread
accepts -p tcp -m unread -m unread
accepts -m unread -m unread -m unread
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

// listed is how Linux 6.1 lists inet fw in of TestKernelBarriers.
const listed = "0100000907000100667700000c000200000000000000000107000300696e0000" +
	"140004000800010000000001080002000000000008000500000000000b00070066696c746572000008000a00000000010800060000000000"

func TestDecodeBaseChain(t *testing.T) {
	p, err := hex.DecodeString(listed)
	if err != nil {
		t.Fatal(err)
	}
	c, err := decodeBaseChain(p)
	if want := (baseChain{family: 1, table: "fw", name: "in", hook: "input", drops: true}); err != nil || c != want {
		t.Errorf("%+v and %v, want %+v", c, err, want)
	}
}

func FuzzDecodeBaseChain(f *testing.F) {
	p, err := hex.DecodeString(listed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) {
		if c, err := decodeBaseChain(p); err == nil && c.hook != "" && c.barrier(nil) == nil && c.drops {
			t.Errorf("%+v is no barrier", c)
		}
	})
}

// rule is how Linux 6.1 lists tcp dport 22 accept.
const rule = "0100001b070001006677000007000200696e00000c000300000000000000000c0c000600000000000000000be400040024000100090001006d657461" +
	"0000000014000200080002000000001008000100000000012c00010008000100636d700020000200080001000000000108000200000000000c000300" +
	"0500010006000000340001000c0001007061796c6f616400240002000800010000000001080002000000000208000300000000020800040000000002" +
	"2c00010008000100636d700020000200080001000000000108000200000000000c0003000600010000160000300001000e000100696d6d6564696174" +
	"650000001c0002000800010000000000100002000c0002000800010000000001"

func TestDecodeRule(t *testing.T) {
	p, err := hex.DecodeString(rule)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeRule(p); err != nil || got != "-p tcp --dport 22 -j ACCEPT" {
		t.Errorf("%q and %v", got, err)
	}
}

func FuzzDecodeRule(f *testing.F) {
	p, err := hex.DecodeString(rule)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Fuzz(func(t *testing.T, p []byte) { decodeRule(p) })
}
