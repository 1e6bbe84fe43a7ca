package iptables

import (
	"slices"
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
				`-p tcp -m comment --comment "a trial" -m conntrack --ctstate NEW -m tcp --dport 80 -j REJECT --reject-with `+
					reject,
				"-m mark --mark 0x4000/0x4000 -j ACCEPT")},
			kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainTrial), Rules: rules(
				"-m addrtype ! --src-type LOCAL -j MARK --set-xmark 0x4000/0x4000",
				"-p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination "+backend,
				"-j MASQUERADE --random-fully")})
	}
	return chains
}

// Extras returns the match of module xt_bpf, which Config.HairpinRules does without, and that of xt_recent, which
// Config.NoAffinity does without.
func (*Mode) Extras(n kernel.Names) []mode.Extra {
	var bpf, recent []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		c := kernel.Chain{Family: f, Table: "nat", Name: n.Chain(kernel.ChainTrial), Rules: matchBPF(f) + "-j MASQUERADE"}
		bpf = append(bpf, c)
		c.Rules = rules(
			matchRecent("--update --seconds 10800 --reap", c.Name, f, uint8(f.Bits()))+"-j RETURN",
			matchRecent("--set", c.Name, f, uint8(f.Bits()))+"-j RETURN")
		recent = append(recent, c)
	}
	return []mode.Extra{{
		Trial:   bpf,
		Without: func(c *mode.Config) { c.HairpinRules = true },
		Absent:  func(s *kernel.State) bool { return withoutBPF(s, n) },
	}, {
		Trial:   recent,
		Without: func(c *mode.Config) { c.NoAffinity = true },
		Absent:  func(s *kernel.State) bool { return withoutRecent(s, n) },
	}}
}

// withoutRecent reports whether this mode wrote some chains with Config.NoAffinity.
func withoutRecent(s *kernel.State, n kernel.Names) bool {
	return slices.ContainsFunc(s.Chains, func(c kernel.Chain) bool {
		return c.Name == n.Chain(kernel.ChainPostrouting) && strings.Contains(c.Rules, noRecent)
	})
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
