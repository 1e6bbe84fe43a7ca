package proxy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// What keeps clients away is judged again when the rules, or what is served, have changed, and only then.
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

// What is new is judged, and what is gone forgotten, as if all were judged again.
func TestBlockedFollowsTheTable(t *testing.T) {
	have := &kernel.Observed{Firewall: []kernel.BaseChain{{Family: kernel.IPv4, Hook: "input", Policy: "drop",
		Name: "iptables filter INPUT", Rules: "-d 203.0.113.2/32 -j REJECT\n-p tcp -m tcp --dport 443 -j ACCEPT"}}}
	served := func(addrs ...string) *kernel.State {
		var want kernel.State
		for _, a := range addrs {
			want.Virtuals = append(want.Virtuals, kernel.Virtual{Key: kernel.VirtualAt(netip.MustParseAddrPort(a), kernel.TCP)})
		}
		return &want
	}
	var f firewall
	for _, want := range []*kernel.State{
		served("203.0.113.1:80", "203.0.113.2:80"), served("203.0.113.1:80", "203.0.113.2:80", "203.0.113.3:80"),
		served("203.0.113.1:443", "203.0.113.2:80", "203.0.113.3:80"), served("203.0.113.1:443"), served("203.0.113.2:80"),
		served("203.0.113.1:80", "203.0.113.2:80"),
	} {
		got, all := f.blocked(have, want, nil), packet.Blocked(have, want, nil)
		if !slices.Equal(got, all) {
			t.Errorf("%v: %q, want %q", want.Virtuals, got, all)
		}
	}
}
