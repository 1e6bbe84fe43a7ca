package proxy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// What keeps clients away is judged again when the rules, or what is served, have changed, and only then. In mode
// iptables it is what sends packets on that counts, and in mode userspace no reply passes forward.
func TestBlockedIsJudgedOnce(t *testing.T) {
	web := kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.9:80"), kernel.TCP)
	want := &kernel.State{Virtuals: []kernel.Virtual{{Key: web}}}
	drop := func(hook string) *kernel.Observed {
		return &kernel.Observed{Firewall: []kernel.BaseChain{{Hook: hook, Policy: "drop", Name: "nftables inet fw gate"}}}
	}
	var f firewall
	have := drop("input")
	first := f.blocked(have, want, nil)
	if len(first) != 1 || !strings.Contains(first[0], web.String()) {
		t.Fatalf("%q", first)
	}
	have.Firewall[0].Policy = "accept" // of the same slice: nobody does that, and it shows that nothing is judged again
	if again := f.blocked(have, want, nil); len(again) != 1 {
		t.Errorf("judged again: %q", again)
	}
	if now := f.blocked(drop("forward"), want, nil); len(now) != 1 {
		t.Errorf("not judged again: %q", now)
	}
	if now := f.blocked(&kernel.Observed{}, want, nil); now != nil {
		t.Errorf("without a firewall: %q", now)
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

// In mode iptables a Cache returns new Frontends in every sync. Judged again is what changes the answer: an address of
// the node, too.
func TestBlockedByRulesIsJudgedOnce(t *testing.T) {
	var cache frontend.Cache
	var f firewall
	have := &kernel.Observed{Firewall: []kernel.BaseChain{{Hook: "forward", Policy: "drop", Name: "nftables inet fw gate"}}}
	want := &kernel.State{}
	judged := func() bool {
		f.lines = []string{"not judged"}
		f.blocked(have, want, cache.List(sources.Merged{}, kernel.Node{}, frontend.Config{}))
		return !slices.Contains(f.lines, "not judged")
	}
	if !judged() || judged() || judged() {
		t.Error("judged in each sync, or never")
	}
	if have.Node.Addrs = []kernel.NodeAddr{{Link: "eth0"}}; !judged() || judged() {
		t.Error("another address of the node: not judged again, or twice")
	}
	want.Virtuals = make([]kernel.Virtual, 1)
	if want.Chains = make([]kernel.Chain, 1); !judged() || judged() {
		t.Error("something is served: not judged again, or twice")
	}
	if want.Chains = make([]kernel.Chain, 1); !judged() {
		t.Error("other chains of ours: not judged again")
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
		if have.Firewall[0].Rules != c.rules {
			t.Errorf("the reading has changed: %q", have.Firewall[0].Rules)
		}
	}
}
