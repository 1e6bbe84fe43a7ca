package iptables

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
)

func gateLines(all []kernel.Gate) string {
	var b strings.Builder
	for _, g := range all {
		fmt.Fprintf(&b, "%s at %s, family %d\n", g.Name, g.Hook, g.Family)
		for _, r := range g.Rules {
			doubt := ""
			if r.Doubtful {
				doubt = " (doubtful)"
			}
			fmt.Fprintf(&b, "  %s: %s%s\n", r.Verdict, r.Matches, doubt)
		}
	}
	return b.String()
}

// Rules are in the order in which a packet meets them, those of other chains in their places.
func TestGates(t *testing.T) {
	text := `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:MINE - [0:0]
:KUBE-FORWARD - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -j MINE
-A INPUT -j LOG
-A INPUT -s 203.0.113.7/32 -m comment --comment "-j ACCEPT" -j REJECT --reject-with icmp-port-unreachable
-A FORWARD -j KUBE-FORWARD
-A FORWARD -p tcp -m tcp --dport 23 -j DROP
-A OUTPUT -j ACCEPT
-A MINE -d 192.0.2.1/32 -j RETURN
-A MINE -p tcp -m tcp --dport 23 -j DROP
-A KUBE-FORWARD -j ACCEPT
COMMIT
`
	found, err := gatesIn(text, "filter", kernel.IPv4, "iptables", kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	want := `iptables filter INPUT at input, family 2
  accept: -i lo
  drop: -p tcp -p tcp -m tcp --dport 23 (doubtful)
  reject: -s 203.0.113.7/32
iptables filter FORWARD at forward, family 2
  accept: -m conntrack --ctstate RELATED,ESTABLISHED
  accept: -m unread
  drop: -p tcp -m tcp --dport 23
`
	if got := gateLines(found); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestKernelGates(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	eachBackend(t, func(t *testing.T, b backend) {
		if b.name == "legacy" && os.Geteuid() != 0 {
			t.Skip("only root may read which tables there are")
		}
		kerneltest.Run(t, named("iptables", b.name), "-t", "raw", "-A", "PREROUTING", "-s", "203.0.113.7", "-j", "DROP")
		kerneltest.Run(t, named("ip6tables", b.name), "-A", "FORWARD", "-i", "eth0", "-j", "REJECT")
		for _, nft := range []string{
			"add table inet fw", "add chain inet fw in { type filter hook input priority 0; }",
			"add rule inet fw in ip saddr 10.0.0.0/8 drop",
			"add rule inet fw in ip saddr 10.32.0.0/11 drop",
			"add rule inet fw in ip6 daddr 2001:db8::/61 tcp sport 7 drop",
			"add rule inet fw in ip6 saddr 2001:db8::7 accept",
		} {
			kerneltest.Run(t, "nft", strings.Fields(nft)...)
		}
		found, err := b.Gates(t.Context(), kernel.DefaultNames)
		if err != nil {
			t.Fatal(err)
		}
		want := `iptables raw PREROUTING at prerouting, family 2
  drop: -s 203.0.113.7/32
ip6tables filter FORWARD at forward, family 10
  reject: -i eth0
nftables inet fw in at input, family 0
  drop: --nfproto ipv4 -s 10.0.0.0/8
  drop: --nfproto ipv4 -s 10.32.0.0/11
  drop: --nfproto ipv6 -d 2001:db8::/61 -p tcp --sport 7
  accept: --nfproto ipv6 -s 2001:db8::7/128
`
		if got := strings.ReplaceAll(gateLines(found), b.name+"-", ""); got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
	})
}
