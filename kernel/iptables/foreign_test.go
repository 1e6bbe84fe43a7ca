package iptables

import (
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// Base chains in output of iptables-save that may end a packet's way or change it, as canonical text.
func TestBaseChainsInTables(t *testing.T) {
	for _, c := range []struct{ name, rules, want string }{
		{"nothing", ":INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]", ""},
		{"policy", ":INPUT DROP [12:345]\n:KUBE-IPVS-FILTER - [0:0]\n-A INPUT -j KUBE-IPVS-FILTER",
			"firewall ipv4 input 0 drop iptables filter INPUT\nrule -j KUBE-IPVS-FILTER\n"},
		{"what accepts", ":INPUT ACCEPT [0:0]\n[1:60] -A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp -j LOG", ""},
		{"a rule", ":OUTPUT ACCEPT [0:0]\n[1:60] -A OUTPUT -o lo -j ACCEPT\n-A OUTPUT -d 192.0.2.1/32 -m comment --comment \"-j ACCEPT\" -j REJECT --reject-with icmp-port-unreachable",
			"firewall ipv4 output 0 accept iptables filter OUTPUT\nrule -o lo -j ACCEPT\nrule -d 192.0.2.1/32 -j REJECT --reject-with icmp-port-unreachable\n"},
		{"a chain", ":INPUT ACCEPT [0:0]\n:MINE - [0:0]\n:IDLE - [0:0]\n:ALSO - [0:0]\n-A INPUT -i eth0 -j MINE\n-A MINE -p udp -j RETURN\n-A MINE -s 192.0.2.0/24 -g ALSO\n-A MINE -j IDLE\n-A ALSO -j DROP",
			"firewall ipv4 input 0 accept iptables filter INPUT\nrule -i eth0 -j MINE\nrule :MINE\nrule -p udp -j RETURN\nrule -s 192.0.2.0/24 -g ALSO\nrule -j IDLE\nrule :ALSO\nrule -j DROP\nrule :IDLE\n"},
		{"a chain that nothing jumps to", ":INPUT ACCEPT [0:0]\n:MINE - [0:0]\n-A MINE -j DROP", ""},
		{"our chains", ":FORWARD ACCEPT [0:0]\n:KUBE-FORWARD - [0:0]\n-A FORWARD -j KUBE-FORWARD\n-A KUBE-FORWARD -j DROP", ""},
		{"a loop", ":INPUT DROP [0:0]\n:MINE - [0:0]\n-A INPUT -p tcp -j MINE\n-A MINE -j MINE",
			"firewall ipv4 input 0 drop iptables filter INPUT\nrule -p tcp -j MINE\nrule :MINE\nrule -j MINE\n"},
		{"a target that nobody knows", ":INPUT ACCEPT [0:0]\n-A INPUT -p tcp -j NFQUEUE --queue-num 1",
			"firewall ipv4 input 0 accept iptables filter INPUT\nrule -p tcp -j NFQUEUE --queue-num 1\n"},
		{"a mark", ":FORWARD ACCEPT [0:0]\n-A FORWARD -j MARK --set-xmark 0x1/0x1",
			"firewall ipv4 forward 0 accept iptables filter FORWARD\nrule -j MARK --set-xmark 0x1/0x1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "*nat\n:INPUT DROP [0:0]\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j MASQUERADE\nCOMMIT\n*filter\n" + c.rules + "\nCOMMIT\n"
			found, err := baseChainsIn(text, kernel.IPv4, Tool{Name: "iptables"}, kernel.DefaultNames)
			if err != nil {
				t.Fatal(err)
			}
			o := kernel.Observed{Firewall: found}
			if got := strings.ReplaceAll(o.String(), "#: ", ""); got != c.want {
				t.Errorf("got:\n%swant:\n%s", got, c.want)
			}
			if again, err := kernel.ParseObserved(o.String()); err != nil || again.String() != o.String() {
				t.Errorf("%v: %s reads back as %s", err, o, again)
			}
		})
	}
}

// All tables are read, each at its place.
func TestBaseChainsOfEachTable(t *testing.T) {
	var text, want strings.Builder
	for _, table := range []string{"security", "filter", "nat", "mangle", "raw"} {
		text.WriteString("*" + table + "\n:PREROUTING ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A PREROUTING -j DROP\n-A FORWARD -j DROP\nCOMMIT\n")
	}
	want.WriteString("raw PREROUTING,mangle FORWARD,mangle PREROUTING,nat PREROUTING,filter FORWARD,security FORWARD")
	found, err := baseChainsIn(text.String(), kernel.IPv6, Tool{Name: "t"}, kernel.DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range found {
		names = append(names, strings.TrimPrefix(b.Name, "t "))
	}
	if got := strings.Join(names, ","); got != want.String() {
		t.Errorf("%s, want %s", got, &want)
	}
}

func FuzzBaseChains(f *testing.F) {
	f.Add("*filter\n:INPUT DROP [0:0]\n:MINE - [0:0]\n-A INPUT -p tcp -j MINE\n-A MINE -j MINE\n-A MINE -p udp -m comment --comment \"x -j y\" -g MINE\nCOMMIT\n")
	f.Fuzz(func(t *testing.T, text string) {
		baseChainsIn(text, kernel.IPv4, Tool{Name: "iptables"}, kernel.DefaultNames)
	})
}
