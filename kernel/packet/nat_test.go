package packet_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
)

// natted is a state whose table nat sends 10.96.0.20:80 to real servers.
func natted(rules ...string) kernel.State {
	chain := func(table, name string, rules ...string) kernel.Chain {
		return kernel.Chain{Family: kernel.IPv4, Table: table, Name: name, Rules: strings.Join(rules, "\n")}
	}
	tcpOnly := make([]string, len(rules))
	for i, r := range rules {
		tcpOnly[i] = "-p tcp " + r
	}
	const vip = "-d 10.96.0.20/32 -p tcp -m tcp --dport 80 "
	s := kernel.State{
		Chains: []kernel.Chain{
			chain("nat", "PREROUTING", "-j SERVICES"), chain("nat", "OUTPUT", "-j SERVICES"),
			chain("nat", "SERVICES", vip+"-j SVC"), chain("nat", "SVC", tcpOnly...),
			chain("nat", "POSTROUTING", `-m addrtype ! --src-type LOCAL -m conntrack --ctstate DNAT -m bpf --bytecode "`+kernel.SameEnds(kernel.IPv4)+`" -j MASQUERADE`),
			chain("filter", "INPUT", "-d 10.96.0.20/32 -m conntrack --ctstate NEW -j REJECT --reject-with icmp-port-unreachable"),
			chain("filter", "FORWARD", "-d 10.2.9.9/32 -j DROP"),
		},
	}
	s.Addrs = []kernel.Addr{{Addr: netip.MustParseAddr("10.96.0.20"), Link: "kube-ipvs0"}}
	return s
}

// Rules of nat choose a real server. All draws are followed, and their chances are known.
func TestTranslated(t *testing.T) {
	const half, third = "-m statistic --mode random --probability 0.5 ", "-m statistic --mode random --probability 0.33333333349 "
	const one, two, three = "-j DNAT --to-destination 10.2.1.10:8080", "-j DNAT --to-destination 10.2.2.10:8080", "-j DNAT --to-destination 10.2.9.9:8080"
	const recent = "--name X --mask 255.255.255.255 --rsource "
	for _, c := range []struct {
		rules        []string
		packet, want string
	}{
		{[]string{one}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080; source kept"},
		{[]string{one}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0 established", "real 10.2.1.10:8080; source as before"},
		{[]string{one}, "tcp 192.0.2.9 -> 10.96.0.20:22 in eth0", "rejected"},
		{[]string{one}, "tcp node -> 10.96.0.20:80", "real 10.2.1.10:8080; source kept"},
		{[]string{one}, "tcp 127.0.0.1 -> 10.96.0.20:80", "dropped"},
		{[]string{half + one, two}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080, 10.2.2.10:8080; source kept"},
		{[]string{half + one, two}, "tcp 10.2.1.10 -> 10.96.0.20:80 in veth1", "real 10.2.1.10:8080 (masqueraded as hairpin), 10.2.2.10:8080 (source kept)"},
		{[]string{third + one, third + two, one}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080 78%, 10.2.2.10:8080 22%; source kept"},
		{[]string{half + one, three}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080 (source kept), 10.2.9.9:8080 (dropped)"},
		{[]string{half + one}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080; source kept"},
		{[]string{three}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "dropped"},
		{[]string{"-m statistic --mode random --probability 1 " + one, two}, "tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080 100%, 10.2.2.10:8080 0%; source kept"},
		{
			[]string{"-m recent --update --seconds 90 --reap " + recent + two, "-m recent --set " + recent + one},
			"tcp 192.0.2.9 -> 10.96.0.20:80 in eth0", "real 10.2.1.10:8080; source kept",
		},
	} {
		v, err := packet.Trace(natted(c.rules...), node, parsed(t, c.packet))
		if err != nil || v.String() != c.want {
			t.Errorf("%q: %s: %s, %v; want %s\n%s", c.rules, c.packet, v, err, c.want, strings.Join(v.Steps, "\n"))
		}
		if len(v.Ways) > 0 && v.Virtual.String() != "-t 10.96.0.20:80" {
			t.Errorf("%s: its destination was %s", c.packet, v.Virtual)
		}
	}
}
