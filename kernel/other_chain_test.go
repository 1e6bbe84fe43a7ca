package kernel

import "testing"

// The hint to install a tool is there wherever in the order the chain is that needs it.
func TestOtherLinesName(t *testing.T) {
	chain := func(name string, stuck bool) OtherChain {
		return OtherChain{Chain: Chain{Family: IPv4, Table: "nat", Name: name}, Backend: "legacy", Stuck: stuck}
	}
	const want = "chains of ours are left in the tables of iptables-legacy (2, the first is KUBE-A), which packets pass: install iptables-legacy, and the next sync removes them"
	for _, first := range []bool{true, false} {
		if lines := OtherLines([]OtherChain{chain("KUBE-A", first), chain("KUBE-B", !first)}); len(lines) != 1 || lines[0] != want {
			t.Errorf("%q", lines)
		}
	}
}
