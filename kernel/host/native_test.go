package host_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nft"
	"github.com/svcproxy/svcproxy/kernel/nl"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
)

// rules is the part of a state that is sets and chains.
func rules(native bool) kernel.State {
	f := frontend.List(table(3, 2), kernel.Node{}, frontend.Config{IPv6: host.HasIPv6(), Scheduler: "rr"})
	s := ipvs.State(f, mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14, VIPPing: true, Native: native, Lean: true})
	return kernel.State{Sets: s.Sets, Entries: s.Entries, Chains: s.Chains}
}

func openRules(t *testing.T, native bool) *host.Kernel {
	t.Helper()
	k, err := host.Open(t.Context(), host.Options{Names: kernel.DefaultNames, StateDir: t.TempDir(), Native: native,
		Needs: []kernel.Adapter{kernel.IPSetAdapter, kernel.IPTablesAdapter}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// sync carries out the plan for a state, and returns it.
func sync(t *testing.T, k *host.Kernel, want kernel.State) kernel.Plan {
	t.Helper()
	have, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Once(want, have)
	if err := k.Apply(t.Context(), p); err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	return p
}

func unchanged(t *testing.T, k *host.Kernel, want kernel.State) kernel.Observed {
	t.Helper()
	have, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := plan.Once(want, have); !p.Empty() || len(have.Others)+len(have.OtherSets) > 0 {
		t.Fatalf("%s\nothers: %v", p, have.Others)
	}
	if same, err := k.Verify(t.Context(), &have, plan.Shard{}); err != nil || !same {
		t.Fatal(same, err)
	}
	return have
}

// At a change of back ends what the last one wrote serves until all is written in the new one, owns virtual servers
// meanwhile, and is gone in the end.
func TestChangeOfBackEnds(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	kerneltest.NewNamespace(t)
	table, err := nft.Open(new(nl.Dialer), kernel.DefaultNames)
	if err != nil {
		t.Skip(err)
	}
	defer table.Close()
	for _, native := range []bool{false, true, false} {
		k, want := openRules(t, native), rules(native)
		have, err := k.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text := host.Text(plan.Once(rules(true), have), kernel.DefaultNames, true); native &&
			!strings.Contains(text, "+ add set ip svcproxy KUBE-CLUSTER-IP { type ") {
			t.Errorf("a plan for nftables:\n%s", text)
		}
		if written := len(have.Sets)+len(have.Chains) > 0; written {
			t.Fatalf("native %t: what the other back end has is taken for its own: %v", native, have.Sets)
		}
		p := sync(t, k, want)
		first := slices.IndexFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindOtherChain })
		if first >= 0 && slices.ContainsFunc(p.Ops[first:], func(o kernel.Op) bool { return o.Verb != kernel.Remove }) {
			t.Errorf("native %t: the old rules go before the new ones are written:\n%s", native, p)
		}
		unchanged(t, k, want)
		if families, err := table.Families(); err != nil || (len(families) > 0) != native {
			t.Errorf("native %t: tables of %v, %v", native, families, err)
		}
		if ipsets := kerneltest.Run(t, "ipset", "list", "-n"); strings.Contains(ipsets, "KUBE-") == native {
			t.Errorf("native %t: sets\n%s", native, ipsets)
		}
		if saved := kerneltest.Run(t, "iptables-save"); strings.Contains(saved, "KUBE-") == native {
			t.Errorf("native %t: chains\n%s", native, saved)
		}
	}
	k := openRules(t, true) // a cleanup
	sync(t, k, kernel.State{})
	unchanged(t, k, kernel.State{})
}

// The ownership set of the other back end proves what is ours.
func TestOtherSetsOwn(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	kerneltest.NewNamespace(t)
	for _, native := range []bool{false, true} {
		k := openRules(t, native)
		sync(t, k, rules(native))
		k.Close()
		other := openRules(t, !native)
		have, err := other.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := rules(native)
		if owned := plan.Owned(&have, nil); len(owned) != want.Entries.Of("KUBE-VIRTUAL-SERVER").Len()+
			want.Entries.Of("KUBE-6-VIRTUAL-SERVER").Len() || len(owned) == 0 {
			t.Errorf("native %t: owned %v", native, owned)
		}
		sync(t, other, kernel.State{})
		unchanged(t, other, kernel.State{})
	}
}

// The kernel takes the rules that a start tries, and none of them stays.
func TestTrials(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("iptables"))
	kerneltest.NewNamespace(t)
	for native, chains := range map[bool][]kernel.Chain{
		false: new(ipvs.Mode).Trial(kernel.DefaultNames), true: ipvs.NativeTrial(kernel.DefaultNames),
	} {
		k := openRules(t, native)
		if err := k.Try(t.Context(), chains); err != nil {
			t.Errorf("native %t: %v", native, err)
		}
		unchanged(t, k, kernel.State{})
	}
}

// The tables of kube-proxy's mode nftables go only if that is asked for, and others' never.
func TestKubeProxysTables(t *testing.T) {
	kerneltest.Need(t, kerneltest.Tool("nft"))
	kerneltest.NewNamespace(t)
	kerneltest.Run(t, "nft", "add table ip kube-proxy; add chain ip kube-proxy services; add table ip6 kube-proxy; "+
		"add table ip svcproxy; add chain ip svcproxy mine")
	for _, native := range []bool{false, true} {
		sync(t, openRules(t, native), kernel.State{})
	}
	before := kerneltest.Run(t, "nft", "list", "ruleset")
	k, err := host.Open(t.Context(), host.Options{Names: kernel.DefaultNames, StateDir: t.TempDir(), Needs: []kernel.Adapter{},
		KubeProxyTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	sync(t, k, kernel.State{})
	after := kerneltest.Run(t, "nft", "list", "ruleset")
	if strings.Count(before, "table ip") != 3 || strings.Count(after, "table ip") != 1 || !strings.Contains(after, "chain mine") {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}
