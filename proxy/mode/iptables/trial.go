package iptables

import (
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// trialName is the name of chains that are written for a test. It is none of ours, so that no plan knows them.
const trialName = "-TMP-TRIAL"

// Trial returns one rule of each kind that every table needs.
func (*Mode) Trial(n kernel.Names) []kernel.Chain {
	var chains []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		backend, reject := "192.0.2.1:80", "icmp-port-unreachable"
		if f == kernel.IPv6 {
			backend, reject = "[2001:db8::1]:80", "icmp6-port-unreachable"
		}
		chains = append(chains,
			kernel.Chain{Family: f, Table: "filter", Name: n.Prefix + trialName, Rules: rules(
				`-p tcp -m comment --comment "a trial" -m conntrack --ctstate NEW -m tcp --dport 80 -j REJECT --reject-with `+reject,
				"-m mark --mark 0x4000/0x4000 -j ACCEPT")},
			kernel.Chain{Family: f, Table: "nat", Name: n.Prefix + trialName, Rules: rules(
				"-m addrtype ! --src-type LOCAL -j MARK --set-xmark 0x4000/0x4000",
				"-p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination "+backend,
				"-j MASQUERADE --random-fully")})
	}
	return chains
}

// TrialOfBPF returns a rule with the match that Config.HairpinRules does without.
func TrialOfBPF(n kernel.Names) []kernel.Chain {
	var chains []kernel.Chain
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		chains = append(chains, kernel.Chain{Family: f, Table: "nat", Name: n.Prefix + trialName, Rules: `-m bpf --bytecode "` + kernel.SameEnds(f) + `" -j MASQUERADE`})
	}
	return chains
}

func rules(lines ...string) string { return strings.Join(lines, "\n") }
