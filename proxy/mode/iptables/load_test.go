package iptables

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// A load of rules in several plans ends in the state of a single one. After each plan no rule leads to a chain that is
// missing, and a VIP that became local has all its rules.
func TestLoadsOfRulesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, config := modetest.DrawNode(t), modetest.DrawConfig(t)
		config.EndpointChains = rapid.Bool().Draw(t, "endpoint chains")
		draw := func() kernel.State {
			return State(frontend.List(modetest.DrawTable(t), node, config.Frontends), config)
		}
		want := draw()
		k := fake.New(config.Names, node, kernel.State{})
		var memory kernel.Memory
		sync := func(part kernel.State) kernel.Observed {
			have := read(t, k)
			p, then := plan.Diff(part, have, memory, kernel.Now{})
			if err := k.Apply(context.Background(), p); err != nil {
				t.Fatalf("%v\n%s", err, p)
			}
			memory = then
			return read(t, k)
		}
		if rapid.Bool().Draw(t, "served before") {
			sync(draw())
		}
		before := read(t, k)
		n := rapid.IntRange(0, 20).Draw(t, "rules of a plan")
		var tried map[netip.Addr]bool
		for round := 0; ; round++ {
			have := read(t, k)
			part, left := plan.Next(want, &have, tried, n, round > 0)
			now := sync(part)
			tried = plan.Tried(part, &now, tried)
			servedAreComplete(t, now, want, before.Addrs)
			wantedStay(t, before, now, want)
			if left == 0 {
				break
			}
			if n = max(n, 1); round > 50 {
				t.Fatal("the load does not end")
			}
		}
		have := read(t, k)
		if p, _ := plan.Diff(want, have, memory, kernel.Now{}); !p.Empty() {
			t.Fatalf("after the load:\n%s", p)
		}
	})
}

func read(t *rapid.T, k *fake.Kernel) kernel.Observed {
	o, err := k.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// servedAreComplete fails if a rule of nat jumps to a chain that does not exist, or if a VIP is bound without one of its
// wanted rules, but for those that were bound before.
func servedAreComplete(t *rapid.T, have kernel.Observed, want kernel.State, bound []kernel.Addr) {
	rules := map[kernel.Chain]string{}
	key := func(c kernel.Chain) kernel.Chain { c.Rules = ""; return c }
	for _, c := range have.Chains {
		rules[key(c)] = c.Rules
	}
	for c, text := range rules {
		for rule := range strings.SplitSeq(text, "\n") {
			to := kernel.Chain{Family: c.Family, Table: "nat", Name: kernel.Target(rule)}
			if _, ok := rules[to]; !ok && c.Table == "nat" && have.Names.OwnsHashed(to.Name) != "" {
				t.Fatalf("%s leads nowhere", rule)
			}
		}
	}
	for _, c := range want.Chains {
		if c.Table != "nat" || !have.Names.IsChain(c.Name, kernel.ChainServices) {
			continue
		}
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			_, to, _ := strings.Cut(rule, "-d ")
			to, _, _ = strings.Cut(to, "/")
			for _, a := range have.Addrs {
				if !slices.Contains(bound, a) && a.Addr.String() == to &&
					!strings.Contains("\n"+rules[key(c)]+"\n", "\n"+rule+"\n") {
					t.Fatalf("%s is bound without %s", to, rule)
				}
			}
		}
	}
}

// wantedStay fails if a rule is gone that was there before a load and is wanted.
func wantedStay(t *rapid.T, before, have kernel.Observed, want kernel.State) {
	type chain struct {
		family      kernel.Family
		table, name string
	}
	rulesOf := func(chains []kernel.Chain) map[chain][]string {
		all := map[chain][]string{}
		for _, c := range chains {
			for rule := range strings.SplitSeq(c.Rules, "\n") {
				key := chain{c.Family, c.Table, c.Name}
				all[key] = append(all[key], kernel.WithoutComment(rule))
			}
		}
		return all
	}
	now, wanted := rulesOf(have.Chains), rulesOf(want.Chains)
	for c, rules := range rulesOf(before.Chains) {
		for _, rule := range rules {
			if slices.Contains(wanted[c], rule) && !slices.Contains(now[c], rule) {
				t.Fatalf("%v lost %s", c, rule)
			}
		}
	}
}
