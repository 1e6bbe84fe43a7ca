package kernel

import (
	"slices"
	"testing"
)

// Cut at 31 and 28 characters, all owned sets and all owned chains have different names,
// even under the longest allowed prefix.
func TestNamesAreUnique(t *testing.T) {
	for _, prefix := range []string{"K", "KUBE", "ABCDEF"} {
		n := Names{Prefix: prefix}
		seen := map[string]bool{}
		for _, f := range []Family{IPv4, IPv6} {
			for _, s := range slices.Concat(SetSpecs, MapSpecs) {
				name := n.Set(f, s.Name)
				if seen[name] || len(name) > maxSetName {
					t.Errorf("set %s is there twice, or too long", name)
				}
				seen[name] = true
				if gf, gs, ok := n.SetSpec(name); !ok || gf != f || gs.Name != s.Name {
					t.Errorf("set %s is taken for %v %s", name, gf, gs.Name)
				}
			}
		}
		for table, chains := range chainNames {
			seen := map[string]bool{}
			for _, c := range chains {
				name := n.Chain(c)
				if seen[name] || !n.OwnsChain(table, name) {
					t.Errorf("chain %s is there twice, or not ours", name)
				}
				seen[name] = true
			}
		}
	}
	if DefaultNames.OwnsSet("KUBE-FOREIGN") || !DefaultNames.OwnsSet("KUBE-TMP-7") {
		t.Error("sets are ours by a fixed list, and by the prefix of temporary ones")
	}
}

// Chains with a hash are ours in table nat, by the form of their names alone.
func TestHashedChains(t *testing.T) {
	for name, want := range map[string]ChainKind{
		"KUBE-SVC-XPGD46QRK7WJZT7O":  ChainCluster,
		"KUBE-SVL-XPGD46QRK7WJZT7O":  ChainLocal,
		"KUBE-EXT-XPGD46QRK7WJZT7O":  ChainExternal,
		"KUBE-FW-XPGD46QRK7WJZT7O":   ChainFirewall,
		"KUBE-SEP-SXIVWICOYRO3J4NJ":  ChainEndpoint,
		"KUBE-SVC-XPGD46QRK7WJZT7":   "",
		"KUBE-SVC-XPGD46QRK7WJZT7OA": "",
		"KUBE-SVC-XPGD46QRK7WJZT71":  "", // base32 has no 1
		"KUBE-SVC-xpgd46qrk7wjzt7o":  "",
		"KUBE-XLB-XPGD46QRK7WJZT7O":  "",
		"CUBE-SVC-XPGD46QRK7WJZT7O":  "",
		"KUBE-SERVICES":              "",
		"KUBE-FIREWALL":              "", // kubelet's
		"KUBE-KUBELET-CANARY":        "",
	} {
		if got := DefaultNames.OwnsHashed(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		ours := want != "" || name == "KUBE-SERVICES"
		if DefaultNames.OwnsChain("nat", name) != ours || DefaultNames.OwnsChain("mangle", name) || want != "" && DefaultNames.OwnsChain("filter", name) {
			t.Errorf("%s is owned in another table, or not in nat", name)
		}
	}
	for name, ours := range map[string]bool{
		DefaultNames.Balancer("MR-3"): true, "KUBE-LB-": false, "KUBE-LB-x": false, "KUBE-LBS": false,
	} {
		if DefaultNames.OwnsChain("nat", name) != ours || DefaultNames.OwnsChain("filter", name) {
			t.Errorf("%s: want %v in table nat alone", name, ours)
		}
	}
	if n := (Names{Prefix: "ABCDEF"}); len(n.Hashed(ChainCluster, "XPGD46QRK7WJZT7O")) > maxChainName {
		t.Error("a name with the longest prefix is too long")
	}
}
