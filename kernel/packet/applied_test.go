package packet

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// In mode iptables it is what sends packets on that counts, and in mode userspace no reply passes forward.
func TestBlockedByMode(t *testing.T) {
	web := kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.9:80"), kernel.TCP)
	want := &kernel.State{Virtuals: []kernel.Virtual{{Key: web}}}
	drop := func(hook string) *kernel.Observed {
		return &kernel.Observed{Firewall: []kernel.BaseChain{{Hook: hook, Policy: "drop", Name: "nftables inet fw gate"}}}
	}
	for hook, lines := range map[string]int{"input": 0, "forward": 1, "postrouting": 1} {
		if got := Blocked(drop(hook), &kernel.State{}, []kernel.VirtualKey{web}); len(got) != lines {
			t.Errorf("by rules, at %s: %q", hook, got)
		}
	}
	relayed := drop("forward")
	if relayed.Relayed = true; Blocked(relayed, want, nil) != nil {
		t.Errorf("forward stops what is relayed: %q", Blocked(relayed, want, nil))
	}
}

// On a host with iptables -P FORWARD DROP nothing is in the way before the first start: KUBE-FORWARD, which is still to
// be made, accepts replies in front of the policy. In the other back end, and behind a rule that drops, it does not.
func TestBlockedIsJudgedWithOurJumps(t *testing.T) {
	web := kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.9:80"), kernel.TCP)
	chain := func(name, rules string) kernel.Chain {
		return kernel.Chain{Family: kernel.IPv4, Table: "filter", Name: name, Rules: rules}
	}
	want := &kernel.State{Virtuals: []kernel.Virtual{{Key: web}}, Chains: []kernel.Chain{
		chain("FORWARD", `-m comment --comment "forwarding rules" -j KUBE-FORWARD`),
		chain("KUBE-FORWARD", "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
	}}
	for _, c := range []struct {
		name, rules string
		hidden      []string
		blocked     bool
	}{
		{"iptables filter FORWARD", "", nil, false},
		{"iptables filter FORWARD", "-j DROP", nil, false},
		{"iptables filter FORWARD", "-j KUBE-FORWARD\n-j DROP", nil, false},
		{"iptables filter FORWARD", "-j DROP\n-j KUBE-FORWARD", nil, true},
		{"iptables filter FORWARD", "-j MINE\n:MINE\n-j KUBE-FORWARD\n-j DROP", nil, false},
		{"iptables mangle FORWARD", "", nil, true},
		{"iptables-legacy filter FORWARD", "", nil, true},
		{"nftables ip filter FORWARD", "", nil, true},
		{"nftables ip filter FORWARD", "", []string{"iptables filter"}, false},
	} {
		have := &kernel.Observed{Hidden: c.hidden, Firewall: []kernel.BaseChain{
			{Family: kernel.IPv4, Hook: "forward", Policy: "drop", Name: c.name, Rules: c.rules}}}
		if got := Blocked(have, want, nil); (len(got) > 0) != c.blocked {
			t.Errorf("%s: %q, want blocked: %t", c.name, got, c.blocked)
		}
		have.Native = true // what our table accepts passes other base chains, too
		if got := Blocked(have, want, nil); len(got) == 0 && !strings.Contains(c.rules, "KUBE") {
			t.Errorf("%s: nothing is blocked where our rules are nftables'", c.name)
		}
		if have.Firewall[0].Rules != c.rules {
			t.Errorf("the reading has changed: %q", have.Firewall[0].Rules)
		}
	}
}
