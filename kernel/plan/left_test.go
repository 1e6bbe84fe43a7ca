package plan

import (
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// What kube-proxy's iptables mode serves with stays; jumps to chains of ours do not, nor jumps with a condition that kube-proxy has without.
func TestLeftRules(t *testing.T) {
	parse := func(text string) kernel.Observed {
		t.Helper()
		o, err := kernel.ParseObserved(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Names = kernel.DefaultNames
		return o
	}
	const theirs = `#: iptables
*filter
:KUBE-SERVICES - [0:0]
-A INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
COMMIT
*nat
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SEP-SXIVWICOYRO3J4NJ -p tcp -m tcp -j DNAT --to-destination 10.180.0.1:80
-A KUBE-SERVICES -d 10.20.30.41/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SVC-XPGD46QRK7WJZT7O -j KUBE-SEP-SXIVWICOYRO3J4NJ
COMMIT
`
	const both = `#: iptables
*filter
:KUBE-SERVICES - [0:0]
:KUBE-VIP-FILTER - [0:0]
-A INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-VIP-FILTER
-A OUTPUT -j KUBE-IPVS-OUT-FILTER
-A KUBE-VIP-FILTER -d 10.96.0.20/32 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-LOAD-BALANCER - [0:0]
:KUBE-SEP-SXIVWICOYRO3J4NJ - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
-A PREROUTING ! -s 127.0.0.0/8 -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SEP-SXIVWICOYRO3J4NJ -p tcp -m tcp -j DNAT --to-destination 10.180.0.1:80
-A KUBE-SERVICES -d 10.20.30.41/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O
-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
-A KUBE-SVC-XPGD46QRK7WJZT7O -j KUBE-SEP-SXIVWICOYRO3J4NJ
COMMIT
#: ip6tables
*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-XPGD46QRK7WJZT7O - [0:0]
COMMIT
`
	o := parse(both)
	var want kernel.Observed
	want.Chains = parse(theirs).Chains
	got := kernel.Observed{State: kernel.State{Chains: LeftRules(&o)}}
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
	}
}
