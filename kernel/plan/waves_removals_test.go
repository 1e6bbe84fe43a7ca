package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// teardown is where removals stand in a plan with waves.
type teardown struct {
	added           int  // the first op of a wave that adds a virtual server
	closed, removed int  // the last op that closes a VIP or removes a real server, and that tears down anything else; -1 without one
	firstRemoved    int  // the first of these
	unserved        bool // a virtual server is removed
}

func teardownOf(p kernel.Plan, have kernel.Observed) teardown {
	at := teardown{added: len(p.Ops), closed: -1, removed: -1, firstRemoved: len(p.Ops)}
	served := map[netip.Addr]bool{}
	for _, v := range have.Virtuals {
		served[v.Key.Addr] = true
	}
	for i, o := range p.Ops {
		switch v := o.Object.(type) {
		case kernel.Virtual:
			if o.Verb == kernel.Remove {
				at.removed, at.firstRemoved, at.unserved = i, min(at.firstRemoved, i), true
			} else if o.Verb == kernel.Add && !served[v.Key.Addr] {
				at.added = min(at.added, i)
			}
		case kernel.Addr:
			if o.Verb == kernel.Remove && served[v.Addr] {
				at.removed, at.firstRemoved = i, min(at.firstRemoved, i)
			}
		case kernel.Real:
			if o.Verb == kernel.Remove {
				at.closed = i
			}
		case kernel.Entry:
			if _, spec, _ := world.Names.SetSpec(v.Set); o.Verb == kernel.Remove && spec.Opens {
				at.closed = i
			}
		}
	}
	return at
}

// Before the first wave, VIPs are closed that no service has any more, and real servers are removed. So are virtual servers
// and addresses, unless that many real servers go with them that the kernel would add new ones slowly.
func TestRemovalsPrecedeWaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]int{-1, 1000}).Draw(t, "few lost")
		w := world.New(t, kernel.State{})
		w.Sync(world.Wanted(world.DrawTable(t, "a")))
		want, have := world.Wanted(world.DrawTable(t, "b")), w.Read()
		t.Cleanup(plan.SetWaves(1, 1, few))
		p := w.Diff(want, have)
		if len(p.Waves) == 0 {
			return
		}
		at := teardownOf(p, have)
		last := p.Waves[len(p.Waves)-1].End
		switch {
		case at.closed > at.added:
			t.Fatalf("op %d closes a VIP or removes a real server after op %d adds a virtual server:\n%s", at.closed, at.added, world.Text(p))
		case few > 0 && at.removed > at.added:
			t.Fatalf("op %d tears down after op %d adds a virtual server:\n%s", at.removed, at.added, world.Text(p))
		case few < 0 && at.unserved && at.firstRemoved < last:
			t.Fatalf("op %d tears down before the last wave ends at %d:\n%s", at.firstRemoved, last, world.Text(p))
		}
	})
}

// As many real servers as a node loses in a usual change go before the waves, and a whole table of them goes after.
func TestRemovalsOfALargeTable(t *testing.T) {
	all := world.Large(2100, 5)
	without := func(from, to int) kernel.State {
		s, gone := all, map[netip.Addr]bool{}
		for _, v := range all.Virtuals[from:to] {
			gone[v.Key.Addr] = true
		}
		s.Virtuals = slices.Concat(all.Virtuals[:from], all.Virtuals[to:])
		s.Reals = all.Reals.Where(func(r *kernel.Real) bool { return !gone[r.Key.Virtual.Addr] })
		s.Entries = all.Entries.Where(func(e kernel.Entry) bool { return !gone[e.Addr] })
		s.Addrs = slices.DeleteFunc(slices.Clone(all.Addrs), func(a kernel.Addr) bool { return gone[a.Addr] })
		return s
	}
	for _, c := range []struct {
		lost int
		late bool
	}{{100, false}, {101, true}} {
		have := kernel.Observed{Names: kernel.DefaultNames, State: without(c.lost, 2100)}
		p := plan.Once(without(0, c.lost), have)
		if len(p.Waves) == 0 {
			t.Fatal("no waves")
		}
		if at := teardownOf(p, have); at.removed < 0 || at.closed > at.added || (at.removed > at.added) != c.late {
			t.Errorf("without %d services: %+v", c.lost, at)
		}
	}
}

// Chains are written before the waves, so a plan that stops leaves no trace of flows that are removed because of rules. They
// are removed before the waves, also those of a VIP that a wave adds.
func TestFlowsOfRulesPrecedeWaves(t *testing.T) {
	t.Cleanup(plan.SetWaves(1, 1, 0))
	want := observed(t, `#: iptables
*nat
:KUBE-PORTALS-CONTAINER - [0:0]
-A KUBE-PORTALS-CONTAINER -d 10.96.0.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.96.0.1:20053
COMMIT
-A -u 10.96.0.1:53 -s rr
-A -u 10.96.0.2:53 -s rr
`)
	have := kernel.Observed{Names: kernel.DefaultNames, Relayed: true}
	p := plan.Once(want.State, have)
	flow := slices.IndexFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindFlow })
	virtual := slices.IndexFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindVirtual })
	if len(p.Waves) != 2 || flow < 0 || flow > virtual {
		t.Errorf("waves %v, the flow is op %d, the first virtual server op %d:\n%s", p.Waves, flow, virtual, world.Text(p))
	}
}

// A VIP that lost its virtual server and becomes local in another way stays local: its address goes after its wave.
func TestVIPOfAWaveStaysLocal(t *testing.T) {
	t.Cleanup(plan.SetWaves(1, 1, 0))
	vip := world.VIPs[0]
	want := observed(t, "-A -t 10.96.0.1:80 -s rr\n"+kernel.Route{Addr: vip}.String()+"\n")
	have := observed(t, "link add kube-ipvs0 type dummy\naddr add 10.96.0.1/32 dev kube-ipvs0\n")
	have.Names = kernel.DefaultNames
	p := plan.Once(want.State, have)
	route := slices.IndexFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindRoute && o.Verb == kernel.Add })
	addr := slices.IndexFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindAddr && o.Verb == kernel.Remove })
	if len(p.Waves) != 1 || route < 0 || addr < route {
		t.Errorf("the route is op %d, the address op %d:\n%s", route, addr, world.Text(p))
	}
}
