package ipvs

import (
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// NativeTrial is Trial for package nft, with sets of each type.
func NativeTrial(n kernel.Names) []kernel.Chain { return trial(n, true) }

// trial returns a rule of each kind, in chains that nothing jumps to.
func trial(n kernel.Names, native bool) (chains []kernel.Chain) {
	c := mode.Config{Names: n, MasqueradeBit: 14, Native: native}
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		s := scope{Scope: mode.Scope{Config: &c, Family: f}}
		nat := []string{
			"! " + s.loopback() + s.in(kernel.ClusterIP, "dst,dst") + "-j MARK --set-xmark " + s.Mark() + "/" + s.Mark(),
			"-m addrtype --dst-type LOCAL -j ACCEPT",
			"-m mark ! --mark " + s.Mark() + "/" + s.Mark() + " -j RETURN",
			s.in(kernel.LoopBack, "dst,dst,src") + "-j MASQUERADE",
			mode.Comment("a trial") + "-j MASQUERADE --random-fully",
		}
		filter := []string{
			s.in(kernel.LoadBalancerSourceCIDR, "dst,dst,src") + "-j RETURN",
			s.in(kernel.HealthCheckNodePort, "dst") + "-j RETURN",
			s.Ping() + "-j RETURN",
			s.in(kernel.IPVSIPs, "dst") + "-j DROP",
			"-m conntrack --ctstate NEW " + s.Reject(),
		}
		if !native {
			named := func(rule string) bool { return strings.Contains(rule, "--match-set ") }
			nat, filter = slices.DeleteFunc(nat, named), slices.DeleteFunc(filter, named)
		}
		chains = append(chains, s.Ours("nat", kernel.ChainTrial, nat...), s.Ours("filter", kernel.ChainTrial, filter...))
		if native {
			chains = append(chains, s.Ours("raw", kernel.ChainIPVSOutFilter, "-j DROP"))
		}
	}
	return chains
}
