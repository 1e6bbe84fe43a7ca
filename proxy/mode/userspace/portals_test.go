package userspace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// The rules of portals redirect to another port of the same address. Another process finds the portals in them.
func TestPortalChains(t *testing.T) {
	f := list()
	keys := Served(f)
	if !slices.IsSortedFunc(keys, kernel.VirtualKey.Compare) || len(keys) != 3 {
		t.Fatalf("served: %v", keys)
	}
	gone := kernel.VirtualAt(netip.MustParseAddrPort("10.96.9.9:80"), kernel.TCP)
	c := mode.Config{Names: kernel.DefaultNames, Portals: []mode.Portal{{Virtual: keys[0], Port: 10001}, {Virtual: keys[1], Port: 10002}, {Virtual: gone, Port: 10003}}}
	s := Mode{}.State(f, c)
	want := strings.TrimLeft(`
#: iptables
*nat
:KUBE-PORTALS-CONTAINER - [0:0]
:KUBE-PORTALS-HOST - [0:0]
-A KUBE-PORTALS-CONTAINER -d 10.96.0.1/32 -p tcp -m comment --comment "default/sticky" -m tcp --dport 80 -j DNAT --to-destination 10.96.0.1:10001
-A KUBE-PORTALS-CONTAINER -d 10.96.0.2/32 -p udp -m comment --comment "default/hashed" -m udp --dport 80 -j DNAT --to-destination 10.96.0.2:10002
-A KUBE-PORTALS-HOST -d 10.96.0.1/32 -p tcp -m comment --comment "default/sticky" -m tcp --dport 80 -j DNAT --to-destination 10.96.0.1:10001
-A KUBE-PORTALS-HOST -d 10.96.0.2/32 -p udp -m comment --comment "default/hashed" -m udp --dport 80 -j DNAT --to-destination 10.96.0.2:10002
-A OUTPUT -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST
-A PREROUTING -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER
COMMIT
`, "\n")
	if got := (kernel.State{Chains: s.Chains}).String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := PortalsOf(&s, kernel.DefaultNames); !slices.Equal(got, c.Portals[:2]) {
		t.Errorf("found %v, want %v", got, c.Portals[:2])
	}
	for _, chain := range s.Chains {
		if !chain.BuiltIn() && !kernel.DefaultNames.OwnsChain(chain.Table, chain.Name) {
			t.Errorf("%s is not owned", chain.Name)
		}
	}
}
