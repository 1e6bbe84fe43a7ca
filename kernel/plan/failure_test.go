package plan_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/testdata/world"
)

// faults makes ops fail at random.
type faults struct {
	chance *rand.Rand
	left   map[string]int
}

// most is how often one op fails.
const most = 2

func (f *faults) fail(o kernel.Op) error {
	line := o.String()
	n, met := f.left[line]
	if !met && f.chance.IntN(4) == 0 {
		n = 1 + f.chance.IntN(most)
	}
	f.left[line] = max(0, n-1)
	if n > 0 {
		return syscall.EIO
	}
	return nil
}

// Ops fail at random and are tried again with the next plan, as in the loop. After each
// of them no packet takes a wrong path, and nothing foreign has changed, not even a
// virtual server that another program made since the reading. When nothing fails any
// more the kernel is as wanted, and no UDP flow is tracked to a backend that is gone.
func TestFailuresAreSafeAndHeal(t *testing.T) {
	fewerChecks(t)
	rapid.Check(t, func(t *rapid.T) {
		foreign := world.Foreigners(t)
		w := world.New(t, foreign)
		if rapid.Bool().Draw(t, "served before") {
			w.Sync(world.Wanted(world.DrawTable(t, "a")))
			w.DrawConns()
		}
		f := faults{rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), map[string]int{}}
		var want kernel.State
		if rapid.IntRange(0, 3).Draw(t, "cleanup") > 0 {
			want = world.Wanted(world.DrawTable(t, "b"))
		}
		intruder := drawIntruder(t, want, w.Read())
		tracked := map[kernel.RealKey]bool{} // the removal of these flows failed
		for round := 0; ; round++ {
			todo, then := plan.Diff(want, w.Read(), w.Memory, kernel.Now{Time: w.Now})
			if todo.Empty() {
				break
			}
			if round == 50 {
				t.Fatalf("does not heal; what is left to do:\n%s", world.Text(todo))
			}
			if intruder != nil {
				foreign.Virtuals = append(foreign.Virtuals, *intruder)
				must(w, kernel.Op{Object: *intruder})
				intruder = nil
			}
			err := carry(w, todo, foreign, func(o kernel.Op) error {
				if aboutForeign(o, foreign) {
					return nil
				}
				err := f.fail(o)
				if x, ok := o.Object.(kernel.Flow); ok && err != nil {
					tracked[x.Key] = true
				} else if ok {
					delete(tracked, x.Key)
				}
				return err
			})
			after := w.Read()
			w.Memory = plan.After(w.Memory, then, todo, err)
			w.Memory.Owned = plan.Owned(&after, w.Memory.Owned)
		}
		for k := range tracked {
			if !want.Reals.Has(k) {
				t.Fatalf("the flows of %v stay", k)
			}
		}
		w.Converge(want)
		fresh := world.New(t, foreign)
		fresh.Sync(want)
		if got, want := lasting(w.Kernel.State()), lasting(fresh.Kernel.State()); got != want {
			t.Fatalf("healed:\n%s\nwithout failures:\n%s", got, want)
		}
	})
}

// fewerChecks is for a property that inspects the whole kernel after each op.
func fewerChecks(t *testing.T) {
	f := flag.Lookup("rapid.checks")
	all := f.Value.String()
	n, err := strconv.Atoi(all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Value.Set(all) })
	f.Value.Set(strconv.Itoa(max(1, n/10)))
}

// aboutForeign says whether an op concerns a virtual server that another program made
// since the reading. There the kernel's answer must arrive: if it were lost, or the
// entry could not be removed from the ownership set, the owner would be unknown.
func aboutForeign(o kernel.Op, foreign kernel.State) bool {
	return slices.ContainsFunc(foreign.Virtuals, func(v kernel.Virtual) bool {
		switch o := o.Object.(type) {
		case kernel.Virtual:
			return o.Key == v.Key
		case kernel.Entry:
			return o.Key() == v.Key
		}
		return false
	})
}

// drawIntruder sometimes draws a virtual server that another program makes in the place
// of a wanted one that does not exist yet.
func drawIntruder(t *rapid.T, want kernel.State, have kernel.Observed) *kernel.Virtual {
	var free []kernel.Virtual
	for _, v := range want.Virtuals {
		if !slices.ContainsFunc(have.Virtuals, func(h kernel.Virtual) bool { return h.Key == v.Key }) {
			free = append(free, v)
		}
	}
	if len(free) == 0 || rapid.Bool().Draw(t, "alone") {
		return nil
	}
	v := rapid.SampledFrom(free).Draw(t, "intruder")
	return &kernel.Virtual{Key: v.Key, Scheduler: "sed", Netmask: v.Netmask}
}

func must(w *world.World, o kernel.Op) {
	if err := w.Kernel.Apply(context.Background(), kernel.Plan{Ops: []kernel.Op{o}}); err != nil {
		w.T.Fatal(err)
	}
}

// carry carries out a plan in which some ops fail, and inspects the kernel after each
// op.
func carry(w *world.World, p kernel.Plan, foreign kernel.State, fail func(kernel.Op) error) error {
	chains := func(a, b kernel.Kind) bool { return a == kernel.KindChain && b == kernel.KindChain }
	return plan.Carry(p, world.Names, chains, func(ops []kernel.Op) []error {
		errs := make([]error, len(ops))
		for _, o := range ops {
			if err := fail(o); err != nil {
				for i := range errs {
					errs[i] = err // chains are all or nothing
				}
				return errs
			}
		}
		err := w.Kernel.Apply(context.Background(), kernel.Plan{Ops: ops})
		var failed *kernel.ApplyError
		if errors.As(err, &failed) {
			for _, f := range failed.Failed {
				errs[f.Index] = f.Err
			}
		}
		inspect(w, foreign, ops[0], errs[0])
		return errs
	})
}

// inspect looks for packets that could take a wrong path.
func inspect(w *world.World, foreign kernel.State, last kernel.Op, err error) {
	o := w.Read()
	var virtuals []kernel.Virtual
	owned := plan.Owned(&o, w.Memory.Owned)
	for _, v := range o.Virtuals {
		theirs := slices.Contains(foreign.Virtuals, v)
		if theirs {
			virtuals = append(virtuals, v)
		} else if !slices.Contains(owned, v.Key) {
			w.T.Fatalf("after %s: %s is in no ownership set", last, v)
		}
	}
	if len(virtuals) != len(foreign.Virtuals) {
		w.T.Fatalf("after %s: foreign virtual servers %v, want %v", last, virtuals, foreign.Virtuals)
	}
	has := func(k kernel.VirtualKey) bool {
		return slices.ContainsFunc(o.Virtuals, func(v kernel.Virtual) bool { return v.Key == k })
	}
	for _, a := range o.Addrs {
		f := kernel.FamilyOf(a.Addr)
		if !o.Entries.Has(kernel.Entry{Set: world.Names.Set(f, kernel.IPVSIPs), Addr: a.Addr}) {
			w.T.Fatalf("after %s: %s is not guarded", last, a)
		}
		if !slices.ContainsFunc(o.Chains, func(c kernel.Chain) bool { return c.Family == f && c.Name == "KUBE-IPVS-FILTER" && c.Rules != "" }) {
			w.T.Fatalf("after %s: nothing guards %s", last, a)
		}
	}
	for e := range o.Entries.All() {
		_, spec, _ := world.Names.SetSpec(e.Set)
		if spec.Opens && slices.Contains(o.Addrs, kernel.Addr{Addr: e.Addr, Link: world.Names.Device}) && !has(e.Key()) {
			w.T.Fatalf("after %s: %s lets packets in to no virtual server", last, e)
		}
	}
	if bound, ok := last.Object.(kernel.Addr); ok && last.Verb == kernel.Add && err == nil {
		if !slices.ContainsFunc(o.Virtuals, func(v kernel.Virtual) bool { return v.Key.Addr == bound.Addr }) {
			w.T.Fatalf("after %s: no virtual server there", last)
		}
	}
}

// lasting is the state as text, without what may depend on the path to it.
func lasting(s kernel.State) string {
	s.Chains = slices.DeleteFunc(s.Chains, func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
	return sameCapacity(s)
}

// What one op that keeps failing prevents, and what it does not.
func TestFailureLeaves(t *testing.T) {
	const sets = `create KUBE-CLUSTER-IP hash:ip,port family inet maxelem 8
create KUBE-IPVS-IPS hash:ip family inet maxelem 8
create KUBE-VIRTUAL-SERVER hash:ip,port family inet maxelem 8
`
	const serving = sets + `add KUBE-CLUSTER-IP 10.96.0.1,tcp:80
add KUBE-IPVS-IPS 10.96.0.1
add KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:80
#: iptables
*filter
:KUBE-IPVS-FILTER - [0:0]
-A INPUT -j KUBE-IPVS-FILTER
-A KUBE-IPVS-FILTER -m set --match-set KUBE-IPVS-IPS dst -j REJECT
COMMIT
link add kube-ipvs0 type dummy
addr add 10.96.0.1/32 dev kube-ipvs0
-A -t 10.96.0.1:80 -s rr
`
	route := kernel.Route{Addr: world.VIPs[0]}.String()
	routed := strings.Replace(serving, "addr add 10.96.0.1/32 dev kube-ipvs0", route, 1)
	const fenced = `create KUBE-IPVS-IPS hash:ip family inet maxelem 8
create KUBE-LOAD-BALANCER hash:ip,port family inet maxelem 8
create KUBE-LOAD-BALANCER-FW hash:ip,port family inet maxelem 8
create KUBE-VIRTUAL-SERVER hash:ip,port family inet maxelem 8
#: iptables
*filter
:KUBE-IPVS-FILTER - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A INPUT -j KUBE-IPVS-FILTER
-A KUBE-IPVS-FILTER -m set --match-set KUBE-IPVS-IPS dst -j REJECT
COMMIT
link add kube-ipvs0 type dummy
`
	fences := strings.Replace(fenced, "COMMIT", "-A KUBE-PROXY-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j DROP\nCOMMIT", 1) +
		"add KUBE-IPVS-IPS 10.96.0.1\nadd KUBE-LOAD-BALANCER 10.96.0.1,tcp:80\nadd KUBE-LOAD-BALANCER-FW 10.96.0.1,tcp:80\n" +
		"add KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:80\naddr add 10.96.0.1/32 dev kube-ipvs0\n-A -t 10.96.0.1:80 -s rr\n"
	unbound := strings.Replace(serving, "addr add 10.96.0.1/32 dev kube-ipvs0\n", "", 1)
	for _, c := range []struct {
		name, want, have, fails string
		has, hasNot             []string
	}{
		{"a virtual server that stays is still ours", "", serving, "- -D -t",
			[]string{"-A -t 10.96.0.1:80", "add KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:80"}, []string{"addr add"}},
		{"an address that stays is still guarded", "link add kube-ipvs0 type dummy", serving, "- addr del",
			[]string{"addr add 10.96.0.1", "add KUBE-IPVS-IPS 10.96.0.1", "-A INPUT -j KUBE-IPVS-FILTER"}, []string{"-A -t"}},
		{"a VIP that cannot be closed is still served", sets, serving, "- del KUBE-CLUSTER-IP",
			[]string{"-A -t 10.96.0.1:80", "add KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:80"}, nil},
		{"nothing is bound that nothing guards", serving, "", "+ chain ipv4 filter KUBE-IPVS-FILTER",
			[]string{"-A -t 10.96.0.1:80"}, []string{"addr add"}},
		{"a VIP that cannot become a route stays an address", routed, serving, "+ " + route, []string{"addr add 10.96.0.1"}, []string{route}},
		{"and the other way round", serving, routed, "+ addr", []string{route}, []string{"addr add"}},
		{"what only some may reach waits for the chain that says so", fences, fenced, "~ chain ipv4 filter KUBE-PROXY-FIREWALL",
			[]string{"-A -t 10.96.0.1:80"}, []string{"add KUBE-LOAD-BALANCER 10.96.0.1"}},
		{"and for its entry there", fences, fenced, "+ add KUBE-LOAD-BALANCER-FW", []string{"-A -t 10.96.0.1:80"}, []string{"add KUBE-LOAD-BALANCER 10.96.0.1"}},
		{"also where a route makes the VIP local", strings.Replace(serving, "addr add 10.96.0.1/32 dev kube-ipvs0", route, 1) + "add KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:81\n-A -t 10.96.0.1:81 -s mh\n", unbound, "+ -A -t 10.96.0.1:81",
			[]string{route}, []string{"-A -t 10.96.0.1:81"}},
		{"a port that cannot be served leaves the others of its VIP", serving + "add KUBE-VIRTUAL-SERVER 10.96.0.1,tcp:81\n-A -t 10.96.0.1:81 -s mh\n", unbound, "+ -A -t 10.96.0.1:81",
			[]string{"addr add 10.96.0.1"}, []string{"-A -t 10.96.0.1:81"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, have := observed(t, c.want), observed(t, c.have)
			k := fake.New(world.Names, world.Node, have.State)
			k.Fail = func(o kernel.Op) error {
				if strings.HasPrefix(o.String(), c.fails) {
					return syscall.EIO
				}
				return nil
			}
			for range 3 {
				o, err := k.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := k.Apply(t.Context(), plan.Once(want.State, o)); err == nil {
					t.Error("nothing failed")
				}
			}
			state := k.State().String()
			for _, line := range c.has {
				if !strings.Contains(state, line) {
					t.Errorf("%q is gone:\n%s", line, state)
				}
			}
			for _, line := range c.hasNot {
				if strings.Contains(state, line) {
					t.Errorf("%q is there:\n%s", line, state)
				}
			}
		})
	}
}

func observed(t *testing.T, text string) kernel.Observed {
	t.Helper()
	o, err := kernel.ParseObserved(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
