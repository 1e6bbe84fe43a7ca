package iptables

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// TestBarriers finds barriers in output of iptables-save and prints them as canonical text.
func TestBarriers(t *testing.T) {
	for _, c := range []struct{ name, rules, want string }{
		{"nothing", ":INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]", ""},
		{"policy", ":INPUT DROP [12:345]\n-A INPUT -j KUBE-IPVS-FILTER", "barrier ipv4 input drop iptables filter INPUT"},
		{"forward is accepted by our own chain", ":FORWARD DROP [0:0]", ""},
		{"output", ":OUTPUT DROP [0:0]\n[1:60] -A OUTPUT -o lo -j ACCEPT", "barrier ipv4 output drop iptables filter OUTPUT\naccepts -o lo"},
		{
			"what accepts", ":INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 23 -j DROP\n" +
				`-A INPUT -p tcp -m comment --comment "-j DROP, not" -m tcp --dport 22 -j ACCEPT` + "\n-A INPUT -j LOG",
			"barrier ipv4 input drop iptables filter INPUT\naccepts -i lo\naccepts -p tcp -m tcp --dport 22",
		},
		{"a rule for all", ":INPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\n-A INPUT -p tcp -j ACCEPT",
			"barrier ipv4 input reject iptables filter INPUT\naccepts -i lo"},
		{"a rule that accepts all", ":INPUT DROP [0:0]\n-A INPUT -j ACCEPT", ""},
		{
			"a chain", ":INPUT DROP [0:0]\n:MINE - [0:0]\n:ALSO - [0:0]\n-A INPUT -i eth0 -j MINE\n-A INPUT -j ALSO\n" +
				"-A MINE -p udp -j RETURN\n-A MINE -p tcp -j ACCEPT\n-A MINE -j DROP\n-A ALSO -s 192.0.2.0/24 -g MINE\n-A ALSO -j RETURN\n-A ALSO -j ACCEPT",
			"barrier ipv4 input drop iptables filter INPUT\naccepts -i eth0 -p tcp\naccepts -s 192.0.2.0/24 -p tcp",
		},
		{"a chain that ends it", ":INPUT ACCEPT [0:0]\n:MINE - [0:0]\n-A INPUT -j MINE\n-A INPUT -j ACCEPT\n-A MINE -p udp -j ACCEPT\n-A MINE -j DROP",
			"barrier ipv4 input drop iptables filter INPUT\naccepts -p udp"},
		{"a chain that lets all through", ":INPUT DROP [0:0]\n:MINE - [0:0]\n-A INPUT -j MINE\n-A MINE -j ACCEPT", ""},
		{"our chains", ":INPUT DROP [0:0]\n:KUBE-NODE-PORT - [0:0]\n-A INPUT -j KUBE-NODE-PORT\n-A KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT",
			"barrier ipv4 input drop iptables filter INPUT"},
		{"a loop", ":INPUT DROP [0:0]\n:MINE - [0:0]\n-A INPUT -p tcp -j MINE\n-A MINE -j MINE", "barrier ipv4 input drop iptables filter INPUT\naccepts -p tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := barriers("*nat\n:INPUT DROP [0:0]\nCOMMIT\n*filter\n"+c.rules+"\nCOMMIT\n", kernel.IPv4, Tool{Name: "iptables"}, kernel.DefaultNames)
			if err != nil {
				t.Fatal(err)
			}
			o := kernel.Observed{Firewall: found}
			if got := strings.ReplaceAll(o.String(), "#: ", ""); got != strings.TrimPrefix(c.want+"\n", "\n") {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
		})
	}
}

func FuzzBarriers(f *testing.F) {
	f.Add("*filter\n:INPUT DROP [0:0]\n:MINE - [0:0]\n-A INPUT -p tcp -j MINE\n-A MINE -j MINE\n-A MINE -j MINE\n-A MINE -p udp -m comment --comment \"x -j y\" -g MINE\nCOMMIT\n")
	f.Fuzz(func(t *testing.T, text string) {
		barriers(text, kernel.IPv4, Tool{Name: "iptables"}, kernel.DefaultNames)
	})
}
