package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

// frontend is a state of mode nftables with at most one frontend, which leads to some endpoints.
func frontend(to ...string) kernel.State {
	var s kernel.State
	n, vip := kernel.DefaultNames, netip.MustParseAddr("10.96.0.1")
	for _, spec := range kernel.MapSpecs {
		s.Sets = append(s.Sets, kernel.Set{Name: n.Set(kernel.IPv4, spec.Name), Type: spec.Type, Family: kernel.IPv4, MaxElem: 65536})
	}
	var all []kernel.Entry
	for i, a := range to {
		all = append(all, kernel.Entry{
			Set: "KUBE-SLOTS", Addr: vip, Proto: kernel.TCP, Port: 80, Slot: uint16(i), ToPort: 8080,
			Second: netip.PrefixFrom(netip.MustParseAddr(a), 32),
		})
	}
	if len(to) > 0 {
		chain := n.Balancer(strconv.Itoa(len(to)))
		s.Chains = []kernel.Chain{{Family: kernel.IPv4, Table: "nat", Name: chain,
			Rules: fmt.Sprintf("-j DNAT --map KUBE-SLOTS dst,dst --random %d", len(to))}}
		all = append(all, kernel.Entry{Set: "KUBE-FRONTENDS", Addr: vip, Proto: kernel.TCP, Port: 80, Goto: chain})
	}
	s.Entries = kernel.EntriesOf(all)
	s.Sort()
	return s
}

// entryOps are the ops on entries of the plan from one state to another, which the fake carries out.
func entryOps(t *testing.T, from, to kernel.State) string {
	t.Helper()
	k := fake.New(kernel.DefaultNames, kernel.Node{}, from)
	have, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	todo, _ := plan.Diff(to, have, kernel.Memory{}, kernel.Now{})
	if err := k.Apply(t.Context(), todo); err != nil {
		t.Fatal(err)
	}
	after, err := k.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if next, _ := plan.Advance(have, todo.Ops); !next.Entries.Equal(after.Entries) {
		t.Errorf("the reading advances to %v, the kernel has %v", next.Entries.Slice(), after.Entries.Slice())
	}
	if again, _ := plan.Diff(to, after, kernel.Memory{}, kernel.Now{}); len(again.Ops) > 0 {
		t.Errorf("left to do: %v", again.Ops)
	}
	var lines []string
	for _, o := range todo.Ops {
		if e, ok := o.Object.(kernel.Entry); ok {
			lines = append(lines, o.Verb.String()+" "+e.Member())
		}
	}
	return strings.Join(lines, "\n")
}

// A map's entry with another value is one change.
func TestValuesOfMaps(t *testing.T) {
	two, one := frontend("10.2.0.1", "10.2.0.2"), frontend("10.2.0.2")
	if got, want := entryOps(t, two, one), `~ 10.96.0.1,tcp:80,slot:0 : 10.2.0.2:8080
~ 10.96.0.1,tcp:80 : goto KUBE-LB-1
- 10.96.0.1,tcp:80,slot:1 : 10.2.0.2:8080`; got != want {
		t.Errorf("one endpoint out:\n%s\nwant:\n%s", got, want)
	}
	if got, want := entryOps(t, one, frontend()), `- 10.96.0.1,tcp:80 : goto KUBE-LB-1
- 10.96.0.1,tcp:80,slot:0 : 10.2.0.2:8080`; got != want {
		t.Errorf("the last frontend:\n%s\nwant:\n%s", got, want)
	}
	if got, want := entryOps(t, two, kernel.State{}), "- 10.96.0.1,tcp:80 : goto KUBE-LB-2"; got != want {
		t.Errorf("cleanup:\n%s\nwant:\n%s", got, want)
	}
}

// Whichever op fails, a frontend leads to a chain and slots that exist, and the next plan mends the rest.
func TestFrontendsHaveTheirSlots(t *testing.T) {
	none, one, two := frontend(), frontend("10.2.0.3"), frontend("10.2.0.1", "10.2.0.2")
	for _, c := range [][2]kernel.State{{none, two}, {two, one}, {one, two}, {two, none}, {two, {}}} {
		for fails := 0; ; fails++ {
			k := fake.New(kernel.DefaultNames, kernel.Node{}, c[0])
			n := 0
			k.Fail = func(kernel.Op) error {
				if n++; n-1 == fails {
					return errors.New("refused")
				}
				return nil
			}
			have, _ := k.Read(t.Context())
			todo, _ := plan.Diff(c[1], have, kernel.Memory{}, kernel.Now{})
			err := k.Apply(t.Context(), todo)
			if err == nil {
				break
			}
			after, _ := k.Read(t.Context())
			for e := range after.Entries.All() {
				count, _ := strconv.Atoi(strings.TrimPrefix(e.Goto, "KUBE-LB-"))
				for i := range count {
					e.Set, e.Slot, e.ToPort = "KUBE-SLOTS", uint16(i), 1
					if !after.Entries.Has(e) {
						t.Errorf("%v: slot %d of %s is missing after:\n%s", err, i, e.Goto, todo)
					}
				}
			}
			todo, _ = plan.Diff(c[1], after, kernel.Memory{}, kernel.Now{})
			if err := k.Apply(t.Context(), todo); err != nil {
				t.Fatal(err)
			}
		}
	}
}
