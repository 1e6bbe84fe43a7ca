package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

func TestRepairs(t *testing.T) {
	key := kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP)
	real := func(weight uint32) kernel.Real {
		return kernel.Real{Key: kernel.RealKey{Virtual: key, Addr: netip.MustParseAddrPort("10.2.0.1:80")}, Weight: weight}
	}
	reals := func(weights ...uint32) (s kernel.State) {
		for _, w := range weights {
			s.Reals = kernel.RealsOf([]kernel.Real{real(w)})
		}
		return s
	}
	chains := func(rules string) kernel.State {
		return kernel.State{Chains: []kernel.Chain{{Table: "nat", Name: "KUBE-SERVICES", Rules: rules}}}
	}
	sets := func(s ...kernel.Set) kernel.State { return kernel.State{Sets: s} }
	set, large := kernel.Set{Name: "KUBE-A", Type: kernel.HashIP, MaxElem: 8}, kernel.Set{Name: "KUBE-A", Type: kernel.HashIP, MaxElem: 16}
	add := func(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Add, Object: o} }
	remove := func(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Remove, Object: o, Was: o} }
	change := func(o kernel.Object) kernel.Op { return kernel.Op{Verb: kernel.Change, Object: o} }
	for name, c := range map[string]struct {
		done, have kernel.State
		op         kernel.Op
		want       bool
	}{
		"removed by another program":           {reals(1), reals(), add(real(1)), true},
		"wanted for the first time":            {reals(), reals(), add(real(1)), false},
		"changed by another program":           {reals(1), reals(3), change(real(1)), true},
		"changed by it, wanted otherwise":      {reals(1), reals(3), change(real(2)), false},
		"a new weight":                         {reals(1), reals(1), change(real(2)), false},
		"a weight that could not be set":       {reals(1), reals(1), change(real(3)), false},
		"added by another program":             {reals(), reals(1), remove(real(1)), true},
		"no longer wanted":                     {reals(1), reals(1), remove(real(1)), false},
		"the end of a drain":                   {reals(0), reals(0), remove(real(0)), false},
		"a drain that another program revived": {reals(0), reals(1), change(real(0)), true},
		"a flow":                               {reals(), reals(), remove(kernel.Flow{Key: real(1).Key}), false},
		"rules":                                {chains("-j A"), chains(""), change(chains("-j A").Chains[0]), true},
		"comments of rules":                    {chains("-j A"), chains("-m comment --comment x -j A"), change(chains("-j A").Chains[0]), false},
		"a set that grows":                     {sets(set), sets(set), change(kernel.Swap{From: "KUBE-TMP-0", To: set.Name}), false},
		"its temporary set":                    {sets(set), sets(set), remove(kernel.Set{Name: "KUBE-TMP-0"}), false},
		"a set that shrank":                    {sets(large), sets(set), change(kernel.Swap{From: "KUBE-TMP-0", To: set.Name}), true},
		"a set that is gone, wanted larger":    {sets(set), sets(), add(large), true},
		"timeouts": {
			kernel.State{Timeouts: kernel.Timeouts{TCP: 60, UDP: 30}}, kernel.State{Timeouts: kernel.Timeouts{TCP: 900, UDP: 30}},
			change(kernel.Timeouts{TCP: 60}), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.Repairs(c.done, c.have, []kernel.Op{c.op})
			if want := []kernel.Op{c.op}; c.want != slices.Equal(got, want) {
				t.Errorf("%v", got)
			}
		})
	}
}
