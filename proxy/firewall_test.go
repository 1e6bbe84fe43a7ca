package proxy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// What keeps clients away is judged again when the rules, or what is served, have changed, and only then. In mode
// iptables it is what sends packets on that counts, and in mode userspace no reply passes forward.
func TestBlockedIsJudgedOnce(t *testing.T) {
	web := kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.9:80"), kernel.TCP)
	want := []kernel.Virtual{{Key: web}}
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
		if got := Blocked(drop(hook), nil, []kernel.VirtualKey{web}); len(got) != lines {
			t.Errorf("by rules, at %s: %q", hook, got)
		}
	}
	relayed := drop("forward")
	if relayed.Relayed = true; Blocked(relayed, want, nil) != nil {
		t.Errorf("forward stops what is relayed: %q", Blocked(relayed, want, nil))
	}
}
