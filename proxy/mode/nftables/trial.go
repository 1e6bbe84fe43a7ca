package nftables

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Needs returns what rules and flows to endpoints that are gone are reached by. What writes the rules of nftables
// writes its sets and maps, too.
func (*Mode) Needs() []kernel.Adapter {
	return []kernel.Adapter{kernel.IPTablesAdapter, kernel.ConntrackAdapter}
}

// Trial returns one rule of each kind.
func (*Mode) Trial(n kernel.Names) []kernel.Chain {
	var chains []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		reject := "icmp-port-unreachable"
		if f == kernel.IPv6 {
			reject = "icmp6-port-unreachable"
		}
		slots := "-j DNAT --map " + n.Set(f, kernel.Slots) + " dst,dst "
		chains = append(chains,
			kernel.Chain{Family: f, Table: "filter", Name: n.Chain(kernel.ChainTrial),
				Rules: "-m conntrack --ctstate INVALID -j DROP"},
			kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainTrial), Rules: strings.Join([]string{
				"-j VMAP --map " + n.Set(f, kernel.Frontends) + " dst,dst",
				"-m set --match-set " + n.Set(f, kernel.IPVSIPs) + " dst -j REJECT --reject-with " + reject,
				"-m set ! --match-set " + n.Set(f, kernel.LoadBalancerSourceCIDR) + " dst,dst,src -j DROP",
				"-m addrtype --src-type LOCAL -j MARK --set-xmark 0x4000/0x4000",
				slots + "--random 2", slots + "--hash src --mod 31 --seed 1 --offset 32768",
			}, "\n")},
			kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainPostrouting), Rules: "-m set --match-set " +
				n.Set(f, kernel.LoopBack) + " dst,dst,src -j MASQUERADE\n-j MASQUERADE --random-fully"})
	}
	return chains
}

// FlowtableTrial returns the rule of each family that a flowtable needs.
func FlowtableTrial(n kernel.Names) (chains []kernel.Chain) {
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		chains = append(chains, kernel.Chain{Family: f, Table: "filter", Name: n.Chain(kernel.ChainTrial),
			Rules: offload(n, f)})
	}
	return chains
}

// Extras returns nothing: rules are the same on all kernels.
func (*Mode) Extras(kernel.Names) []mode.Extra { return nil }
