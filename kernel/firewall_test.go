package kernel_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// Whether a rule accepts a client's connection to tcp 10.96.0.1:80 at hook input.
func TestBarrierAccepts(t *testing.T) {
	web := []kernel.Virtual{{Key: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP)}}
	for matches, accepts := range map[string]bool{
		"-p tcp":                             true,
		"-p udp":                             false,
		"-p icmp":                            false,
		"! -p udp":                           true,
		"-i eth0":                            true,
		"-i lo":                              false,
		"! -i lo":                            true,
		"-p tcp -m tcp --dport 22":           false,
		"-p tcp -m tcp --dport 80":           true,
		"-p tcp -m tcp --dport 79:81":        true,
		"-p tcp -m tcp ! --dport 22":         true,
		"-p tcp -m multiport --dports 22,80": true,
		"-p tcp -m multiport --dports 22,443,8000:8080": false,
		"-p tcp --dport http":                           true,
		"-d 10.96.0.0/12 -p tcp":                        true,
		"-d 192.0.2.1/32":                               false,
		"-s 192.0.2.0/24":                               true,
		"-m conntrack --ctstate RELATED,ESTABLISHED":    false,
		"-m state --state NEW,ESTABLISHED":              true,
		`-m comment --comment "-i lo" -p tcp`:           true,
		"-m set --match-set whoever src":                true,
		"-m conntrack --ctstate NEW -i lo":              false,
		"-p udp -m udp --dport 53\n-m conntrack --ctstate RELATED,ESTABLISHED\n-p tcp -i en0": true,
	} {
		b := kernel.Barrier{Family: kernel.IPv4, Hook: "input", Verdict: "drop", Name: "iptables filter INPUT", Accepts: matches}
		if got := len(kernel.Barred([]kernel.Barrier{b}, web)) == 0; got != accepts {
			t.Errorf("%s: may accept: %v, want %v", matches, got, accepts)
		}
	}
}

func TestBarred(t *testing.T) {
	key := func(s string) kernel.Virtual {
		return kernel.Virtual{Key: kernel.VirtualAt(netip.MustParseAddrPort(s), kernel.TCP)}
	}
	virtuals := []kernel.Virtual{key("10.96.0.1:80"), key("10.96.0.2:80"), key("10.96.0.2:443"), key("[fd00::1]:80")}
	firewall := []kernel.Barrier{
		{Family: kernel.IPv4, Hook: "input", Verdict: "drop", Name: "iptables filter INPUT", Accepts: "-p tcp --dport 443\n-p tcp --dport 22"},
		{Family: kernel.IPv4, Hook: "output", Verdict: "reject", Name: "iptables filter OUTPUT", Accepts: "-p tcp --dport 443\n-d 192.0.2.0/24"},
		{Family: kernel.IPv6, Hook: "input", Verdict: "reject", Name: "ip6tables filter INPUT"},
		{Hook: "forward", Verdict: "drop", Name: "nftables inet filter forward", Accepts: "--ctstate NEW"},
		{Hook: "forward", Verdict: "drop", Name: "nftables inet that is fine", Accepts: "--ctstate RELATED,ESTABLISHED"},
	}
	want := `iptables filter INPUT: no rule accepts -t 10.96.0.1:80 and 1 more, they are left to drop
ip6tables filter INPUT: no rule accepts -t [fd00::1]:80, it is left to reject
nftables inet filter forward: no rule accepts -t 10.96.0.1:80 and 3 more, they are left to drop`
	if got := strings.Join(kernel.Barred(firewall, virtuals), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := kernel.Barred(firewall, nil); got != nil {
		t.Errorf("with nothing served: %q", got)
	}
	o := kernel.Observed{Firewall: firewall}
	if again, err := kernel.ParseObserved(o.String()); err != nil || again.String() != o.String() || len(again.Firewall) != len(firewall) {
		t.Errorf("%v: %s reads back as %s", err, o, again)
	}
}
