package iptables

import (
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/manifest"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// TestChainsAreKubeProxys compares with what kube-proxy 1.34 wrote for the same objects on
// such a node: see testdata/kube-proxy/main.go. The chains of service ports and endpoints
// are equal. Chains that services share have the same rules; kube-proxy has no order there.
func TestChainsAreKubeProxys(t *testing.T) {
	objects, problems := manifest.Decode("objects.yaml", golden(t, "objects.yaml"))
	table, more := manifest.Table(objects, "n1")
	for _, p := range append(problems, more...) {
		t.Error(p)
	}
	table, _ = sources.Merge(sources.HostFacts{}, table)
	node := kernel.Node{Name: "n1", Primary4: netip.MustParseAddr("192.0.2.1"), Primary6: netip.MustParseAddr("2001:db8::1")}
	for _, a := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		node.Addrs = append(node.Addrs, kernel.NodeAddr{Prefix: netip.MustParsePrefix(a), Link: "eth0"})
	}
	config := modetest.Defaults()
	config.EndpointChains = true
	config.ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("fd00:2::/32")}
	theirs, err := kernel.ParseObserved("#: iptables\n" + string(golden(t, "iptables-save")) + "#: ip6tables\n" + string(golden(t, "ip6tables-save")))
	if err != nil {
		t.Fatal(err)
	}
	want, got := comparables(theirs.Chains), comparables(stateOf(table, node, config).Chains)
	hashed := 0
	for chain := range maps.Keys(want) {
		if kernel.DefaultNames.OwnsHashed(chain.Name) != "" {
			hashed++
		}
		if !slices.Equal(got[chain], want[chain]) {
			t.Errorf("%s\n%s\nkube-proxy's:\n%s", chain, strings.Join(got[chain], "\n"), strings.Join(want[chain], "\n"))
		}
	}
	for chain := range got {
		if _, found := want[chain]; !found {
			t.Errorf("kube-proxy has no %s:\n%s", chain, strings.Join(got[chain], "\n"))
		}
	}
	if hashed < 130 {
		t.Errorf("%d chains of service ports and endpoints", hashed)
	}
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kube-proxy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// sharedNames are the chains in which many services have rules.
var sharedNames = []string{"nat KUBE-SERVICES", "nat KUBE-NODEPORTS", "filter KUBE-SERVICES", "filter KUBE-EXTERNAL-SERVICES", "filter KUBE-NODEPORTS", "filter KUBE-PROXY-FIREWALL"}

// comparables returns the rules of chains that both should have: those of service ports and
// endpoints as they are, and those that services share without what differs on purpose.
func comparables(chains []kernel.Chain) map[kernel.Chain][]string {
	all := make(map[kernel.Chain][]string)
	for _, c := range chains {
		rules := strings.Split(c.Rules, "\n")
		shared := slices.Contains(sharedNames, c.Table+" "+c.Name)
		if c.Rules == "" || !shared && kernel.DefaultNames.OwnsHashed(c.Name) == "" {
			continue
		}
		if shared {
			for i := range rules {
				rules[i] = alike.Replace(rules[i])
			}
			rules = slices.DeleteFunc(rules, func(r string) bool { return strings.Contains(r, "this must be the last rule") })
			slices.Sort(rules)
		}
		c.Rules = ""
		all[c] = rules
	}
	return all
}

// alike removes that our VIPs are addresses of the node too, so that a node port is that of
// an address; and the port's name in a comment, since health checks are of a service.
var alike = strings.NewReplacer("-d 192.0.2.1/32 ", "", "-d 2001:db8::1/128 ", "", "-m addrtype --dst-type LOCAL ", "", ":http health check", " health check")
