package iptables

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// Trial returns one rule of each kind that every table needs.
func (*Mode) Trial(n kernel.Names) []kernel.Chain {
	var chains []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		backend, reject := "192.0.2.1:80", "icmp-port-unreachable"
		if f == kernel.IPv6 {
			backend, reject = "[2001:db8::1]:80", "icmp6-port-unreachable"
		}
		chains = append(chains,
			kernel.Chain{Family: f, Table: "filter", Name: n.Chain(kernel.ChainTrial), Rules: rules(
				`-p tcp -m comment --comment "a trial" -m conntrack --ctstate NEW -m tcp --dport 80 -j REJECT --reject-with `+reject,
				"-m mark --mark 0x4000/0x4000 -j ACCEPT")},
			kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainTrial), Rules: rules(
				"-m addrtype ! --src-type LOCAL -j MARK --set-xmark 0x4000/0x4000",
				"-p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination "+backend,
				"-j MASQUERADE --random-fully")})
	}
	return chains
}

// Extras returns the match of module xt_bpf, which Config.HairpinRules does without.
func (*Mode) Extras(n kernel.Names) []mode.Extra {
	var chains []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		chains = append(chains, kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainTrial), Rules: matchBPF(f) + "-j MASQUERADE"})
	}
	return []mode.Extra{{
		Trial:   chains,
		Without: func(c *mode.Config) { c.HairpinRules = true },
		Absent:  func(s *kernel.State) bool { return withoutBPF(s, n) },
	}}
}

// matchBPF matches packets that are sent back to their sender.
func matchBPF(f kernel.Family) string { return `-m bpf --bytecode "` + kernel.SameEnds(f) + `" ` }

// withoutBPF reports whether this mode wrote some chains with Config.HairpinRules. Only this mode has the chain of
// guards.
func withoutBPF(s *kernel.State, n kernel.Names) bool {
	written, bpf := false, false
	for i := range s.Chains {
		switch c := &s.Chains[i]; c.Name {
		case n.Chain(kernel.ChainVIPFilter):
			written = true
		case n.Chain(kernel.ChainPostrouting):
			bpf = bpf || strings.Contains(c.Rules, matchBPF(c.Family))
		}
	}
	return written && !bpf
}

func rules(lines ...string) string { return strings.Join(lines, "\n") }
