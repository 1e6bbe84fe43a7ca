package nftables

import (
	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Needs returns what maps, rules, and flows to endpoints that are gone are reached by.
func (*Mode) Needs() []kernel.Adapter {
	return []kernel.Adapter{kernel.IPSetAdapter, kernel.IPTablesAdapter, kernel.LinkAdapter, kernel.ConntrackAdapter}
}

// Trial returns one rule of each kind that every table needs, but for those that look into sets and maps: these do not
// exist yet.
func (*Mode) Trial(n kernel.Names) []kernel.Chain {
	var chains []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		reject := "icmp-port-unreachable"
		if f == kernel.IPv6 {
			reject = "icmp6-port-unreachable"
		}
		chains = append(chains,
			kernel.Chain{Family: f, Table: "filter", Name: n.Chain(kernel.ChainTrial),
				Rules: "-m conntrack --ctstate INVALID -j DROP"},
			kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainTrial),
				Rules: "-m addrtype --src-type LOCAL -j MARK --set-xmark 0x4000/0x4000\n-j MASQUERADE --random-fully\n" +
					"-j REJECT --reject-with " + reject})
	}
	return chains
}

// Extras returns nothing: rules are the same on all kernels.
func (*Mode) Extras(kernel.Names) []mode.Extra { return nil }
