package kernel

import "testing"

// Cut at 31 and 28 characters, all owned sets and all owned chains have different names,
// even under the longest allowed prefix.
func TestNamesAreUnique(t *testing.T) {
	for _, prefix := range []string{"K", "KUBE", "ABCDEF"} {
		n := Names{Prefix: prefix}
		seen := map[string]bool{}
		for _, f := range []Family{IPv4, IPv6} {
			for _, s := range SetSpecs {
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
