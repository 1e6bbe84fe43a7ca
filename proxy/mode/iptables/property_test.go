package iptables

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// drawConfig draws a configuration for mode iptables.
func drawConfig(t *rapid.T) mode.Config {
	c := modetest.DrawConfig(t)
	c.HairpinRules = rapid.Bool().Draw(t, "hairpin rules")
	c.NoAffinity = rapid.Bool().Draw(t, "no affinity")
	c.EndpointChains = rapid.Bool().Draw(t, "endpoint chains")
	c.NoDevice = rapid.Bool().Draw(t, "no device")
	c.LocalhostNodePorts = rapid.Bool().Draw(t, "localhost node ports")
	return c
}

// TestProperties checks what must be true of the state for any table.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, node, config := modetest.DrawTable(t), modetest.DrawNode(t), drawConfig(t)
		s := stateOf(table, node, config)
		if config.NoDevice && len(s.Links)+len(s.Addrs) > 0 {
			t.Fatalf("VIPs are bound to a device that there is not:\n%s", s)
		}
		if again := stateOf(table, node, config); again.String() != s.String() {
			t.Fatalf("two answers:\n%s\n%s", s, again)
		}
		sorted := s.Clone()
		sorted.Sort()
		if sorted.String() != s.String() {
			t.Fatalf("not sorted, or duplicates:\n%s", s)
		}
		read, err := kernel.ParseObserved(s.String())
		if err != nil || read.State.String() != s.String() {
			t.Fatalf("does not read back: %v\n%s", err, s)
		}
		if len(s.Virtuals)+s.Reals.Len()+len(s.Sets)+s.Entries.Len() > 0 {
			t.Fatalf("objects of mode ipvs:\n%s", s)
		}
		have := kernel.Observed{State: s, Names: config.Names, Node: node}
		if p, _ := plan.Diff(s, have, kernel.Memory{Cut: s.Policy.Cut}, kernel.Now{}); !p.Empty() {
			t.Fatalf("a kernel as wanted is changed:\n%s", p)
		}
		kept := have
		kept.State = s.Clone()
		if plan.KeepOwned(&kept); kept.State.String() != s.String() {
			t.Fatalf("not all of it is ours:\n%s\nours:\n%s", s, kept.State)
		}
		jumpsLead(t, s, config.Names)
	})
}

// jumpsLead checks that each rule jumps to a target of xtables or to a chain of the same
// table, that each chain of ours is jumped to, and that names and comments fit.
func jumpsLead(t *rapid.T, s kernel.State, names kernel.Names) {
	used := make(map[kernel.Chain]bool)
	for _, c := range s.Chains {
		if len(c.Name) > 28 {
			t.Fatalf("the name of %s is too long", c)
		}
		for rule := range strings.SplitSeq(c.Rules, "\n") {
			if to := kernel.Target(rule); strings.HasPrefix(to, names.Prefix) {
				used[kernel.Chain{Family: c.Family, Table: c.Table, Name: to}] = true
			}
		}
	}
	for _, c := range s.Chains {
		key := c
		key.Rules = ""
		switch {
		case !c.BuiltIn() && !used[key] && c.Name != names.Chain(kernel.ChainNodePorts) && c.Name != names.Chain(kernel.ChainMarkMasq):
			t.Fatalf("nothing jumps to %s", c)
		}
		delete(used, key)
	}
	for c := range used {
		t.Fatalf("there is no %s", c)
	}
}
