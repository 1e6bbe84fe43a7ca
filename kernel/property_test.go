package kernel_test

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
)

// The number of random pairs of table and kernel that each property is tried on,
// the same ones in every run: `make fuzz` looks for others.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := "5000"
	if testing.Short() {
		checks = "300"
	}
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": "1"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

var (
	names = kernel.DefaultNames
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

	vips = addrs("10.96.0.1", "10.96.0.2", "10.96.0.3", "192.0.2.1", "fd00:96::1", "fd00:96::2")
	pods = addrs("10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4", "fd00:2::1", "fd00:2::2", "fd00:2::3")
	node = kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}}}
)

func addrs(text ...string) []netip.Addr {
	var a []netip.Addr
	for _, s := range text {
		a = append(a, netip.MustParseAddr(s))
	}
	return a
}

// service is one virtual server of a random table.
type service struct {
	key       kernel.VirtualKey
	set       kernel.SetName
	scheduler string
	affinity  bool
	reals     []kernel.Real
}

func drawTable(t *rapid.T, label string) []service {
	var table []service
	seen := map[kernel.VirtualKey]bool{}
	for i := range rapid.IntRange(0, 6).Draw(t, label+" services") {
		k := drawKey(t, fmt.Sprintf("%s %d", label, i))
		if seen[k] {
			continue
		}
		seen[k] = true
		s := service{
			key:       k,
			set:       rapid.SampledFrom([]kernel.SetName{kernel.ClusterIP, kernel.ExternalIP, kernel.LoadBalancer, kernel.NodePortTCP}).Draw(t, "set"),
			scheduler: rapid.SampledFrom([]string{"rr", "wlc"}).Draw(t, "scheduler"),
			affinity:  rapid.Bool().Draw(t, "affinity"),
		}
		for _, pod := range rapid.SliceOfNDistinct(rapid.SampledFrom(pods), 0, 4, rapid.ID).Draw(t, "pods") {
			if kernel.FamilyOf(pod) == k.Family() {
				s.reals = append(s.reals, kernel.Real{
					Key:    kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(pod, 8080)},
					Weight: uint32(rapid.IntRange(0, 2).Draw(t, "weight")),
				})
			}
		}
		table = append(table, s)
	}
	return table
}

func drawKey(t *rapid.T, label string) kernel.VirtualKey {
	return kernel.VirtualKey{
		Addr:  netip.AddrPortFrom(rapid.SampledFrom(vips).Draw(t, label+" vip"), rapid.SampledFrom([]uint16{53, 80}).Draw(t, "port")),
		Proto: rapid.SampledFrom([]kernel.Proto{kernel.TCP, kernel.UDP}).Draw(t, "proto"),
	}
}

// wanted is the state for a table: less than rules.State makes, but with every
// kind of object and every way they depend on one another.
func wanted(table []service) kernel.State {
	var s kernel.State
	s.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.vs.conntrack", Value: "1"}}
	if len(table) > 1 {
		s.Sysctls = append(s.Sysctls, kernel.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"})
	}
	if len(table) > 0 {
		s.Timeouts.TCP = uint32(900 + len(table)%2*100) // 900 is what IPVS begins with
	}
	if len(table) > 2 {
		s.Timeouts.UDP = 30
	}
	s.Links = []kernel.Link{{Name: names.Device, Type: "dummy"}}
	for _, svc := range table {
		v := kernel.Virtual{Key: svc.key, Scheduler: svc.scheduler, Netmask: uint8(svc.key.Family().Bits())}
		if svc.affinity {
			v.Flags, v.Timeout = kernel.FlagPersistent, 10800
			s.Policy.Drains = append(s.Policy.Drains, kernel.VirtualDrain{Virtual: svc.key, Timeout: 10 * time.Second})
		}
		s.Virtuals = append(s.Virtuals, v)
		s.Reals = append(s.Reals, svc.reals...)
		f, vip := svc.key.Family(), svc.key.Addr.Addr()
		member := func(set kernel.SetName) kernel.Entry {
			return kernel.Entry{Set: names.Set(f, set), Addr: vip, Proto: svc.key.Proto, Port: svc.key.Addr.Port()}
		}
		s.Entries = append(s.Entries, member(kernel.VirtualServer))
		if svc.set == kernel.NodePortTCP {
			s.Entries = append(s.Entries, kernel.Entry{Set: names.Set(f, svc.set), Port: svc.key.Addr.Port()})
		} else {
			s.Entries = append(s.Entries, member(svc.set), kernel.Entry{Set: names.Set(f, kernel.IPVSIPs), Addr: vip})
			s.Addrs = append(s.Addrs, kernel.Addr{Addr: vip, Link: names.Device})
		}
		for _, r := range svc.reals {
			a := r.Key.Addr.Addr()
			s.Entries = append(s.Entries, kernel.Entry{
				Set: names.Set(f, kernel.LoopBack), Addr: a, Proto: svc.key.Proto, Port: 8080, Second: netip.PrefixFrom(a, a.BitLen()),
			})
		}
	}
	s.Sort()
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		var rules []string
		for _, spec := range kernel.SetSpecs {
			set := kernel.Set{Name: names.Set(f, spec.Name), Type: spec.Type, Family: f}
			n := 0
			for _, e := range s.Entries {
				if e.Set == set.Name {
					n++
				}
			}
			if spec.Type != kernel.BitmapPort {
				set.MaxElem = uint32(max(1, n)) // no room to grow: every growth is a resize
			}
			if n > 0 {
				rules = append(rules, `-m comment --comment "`+string(spec.Name)+`" -m set --match-set `+set.Name+" dst,dst -j KUBE-MARK-MASQ")
			}
			s.Sets = append(s.Sets, set)
		}
		s.Chains = append(s.Chains,
			kernel.Chain{Family: f, Table: "nat", Name: "KUBE-MARK-MASQ", Rules: "-j MARK --set-xmark 0x4000/0x4000"},
			kernel.Chain{Family: f, Table: "nat", Name: "KUBE-SERVICES", Rules: strings.Join(rules, "\n")},
			kernel.Chain{Family: f, Table: "nat", Name: "OUTPUT", Rules: "-j KUBE-SERVICES"},
			kernel.Chain{Family: f, Table: "nat", Name: "PREROUTING", Rules: "-j KUBE-SERVICES"},
			kernel.Chain{Family: f, Table: "filter", Name: "KUBE-IPVS-FILTER", Rules: "-m set --match-set " + names.Set(f, kernel.IPVSIPs) + " dst -j REJECT"},
			kernel.Chain{Family: f, Table: "filter", Name: "INPUT", Rules: "-j KUBE-IPVS-FILTER"},
		)
	}
	s.Sort()
	return s
}

// foreigners are objects of others, some on addresses and in chains that the
// tables use too. Their virtual servers have a scheduler no table asks for, so
// none is ever adopted.
func foreigners(t *rapid.T) kernel.State {
	s := kernel.State{
		Sysctls: []kernel.Sysctl{{Name: "net.ipv4.vs.conntrack", Value: "0"}, {Name: "net.ipv4.ip_forward", Value: "0"}},
		Sets:    []kernel.Set{{Name: "blocklist", Type: kernel.HashIP, Family: kernel.IPv4, MaxElem: 8}},
		Entries: []kernel.Entry{{Set: "blocklist", Addr: vips[0]}},
		Links:   []kernel.Link{{Name: "eth0", Type: "veth"}},
		Addrs:   []kernel.Addr{{Addr: vips[3], Link: "eth0"}},
		Chains: []kernel.Chain{
			{Family: kernel.IPv4, Table: "nat", Name: "OUTPUT", Rules: "-m set --match-set blocklist dst -j DROP\n-j MINE-OUT"},
			{Family: kernel.IPv4, Table: "nat", Name: "MINE-OUT", Rules: "-j RETURN"},
		},
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "foreign virtuals") {
		k := drawKey(t, fmt.Sprintf("foreign %d", i))
		s.Virtuals = append(s.Virtuals, kernel.Virtual{Key: k, Scheduler: "sed", Netmask: uint8(k.Family().Bits())})
		pod := pods[0]
		if k.Family() == kernel.IPv6 {
			pod = pods[4]
		}
		s.Reals = append(s.Reals, kernel.Real{Key: kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(pod, 1)}, Weight: 7, Forward: kernel.Direct})
	}
	s.Sort()
	return s
}

// world is a fake kernel with the loop's soft state.
type world struct {
	t      *rapid.T
	kernel *fake.Kernel
	now    time.Time
	owned  []kernel.VirtualKey
	drains []kernel.Drain
}

func newWorld(t *rapid.T, foreign kernel.State) *world {
	w := &world{t: t, now: start}
	w.kernel = fake.New(names, node, foreign)
	w.kernel.Now = func() time.Time { return w.now }
	return w
}

func (w *world) read() kernel.Observed {
	o, err := w.kernel.Read(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	o.Owned, o.Drains = w.owned, w.drains
	return o
}

// sync does what the loop does once, and fails where an op is refused.
func (w *world) sync(want kernel.State) kernel.Plan {
	have := w.read()
	p := kernel.Diff(want, have)
	if err := w.kernel.Apply(context.Background(), p); err != nil {
		w.t.Fatalf("%v\nhave:\n%s\nwant:\n%s\nplan:\n%s", err, have, want, text(p))
	}
	after := w.read()
	w.owned, w.drains = after.Ours(), p.Drains
	return p
}

// settle ends all drains, as when all connections have ended.
func (w *world) settle(want kernel.State) {
	for _, r := range w.read().Reals {
		w.kernel.SetConns(r.Key, kernel.Conns{})
	}
	w.sync(want)
	if p := w.sync(want); p.Draining != 0 {
		w.t.Fatalf("%d real servers drain without connections", p.Draining)
	}
}

func text(p kernel.Plan) string {
	var b strings.Builder
	for _, o := range p.Ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

func (w *world) drawConns() {
	for i, r := range w.read().Reals {
		w.kernel.SetConns(r.Key, kernel.Conns{Active: uint32(rapid.IntRange(0, 1).Draw(w.t, fmt.Sprintf("conns %d", i)))})
	}
}

// drift does by hand what operators and other programs do to our objects.
func (w *world) drift() {
	o := w.read()
	foreign := func(k kernel.VirtualKey) bool { return !slices.Contains(w.owned, k) }
	var ops []kernel.Op
	some := func(label string) bool { return rapid.IntRange(0, 3).Draw(w.t, label) == 0 }
	for i, e := range o.Entries {
		if some(fmt.Sprintf("lose entry %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: e})
		}
	}
	for i, a := range o.Addrs {
		if some(fmt.Sprintf("lose address %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: a})
		}
	}
	for i, r := range o.Reals {
		if !foreign(r.Key.Virtual) && some(fmt.Sprintf("change real %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Change, Object: kernel.Real{Key: r.Key, Weight: r.Weight + 1, Forward: kernel.Direct}})
		}
	}
	for i, v := range o.Virtuals {
		if !foreign(v.Key) && some(fmt.Sprintf("lose virtual %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: v})
		}
	}
	for i, c := range o.Chains {
		if some(fmt.Sprintf("empty chain %d", i)) && !c.BuiltIn() {
			ops = append(ops, kernel.Op{Verb: kernel.Change, Object: kernel.Chain{Family: c.Family, Table: c.Table, Name: c.Name}, Was: c})
		} else if c.BuiltIn() && some(fmt.Sprintf("lose jump %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: c, Was: c})
		}
	}
	if some("leave a temporary set") && !o.HasSet("KUBE-TMP-0") {
		ops = append(ops, kernel.Op{Object: kernel.Set{Name: "KUBE-TMP-0", Type: kernel.HashIPPort, Family: kernel.IPv4, MaxElem: 4}})
	}
	if err := w.kernel.Apply(context.Background(), kernel.Plan{Ops: ops}); err != nil {
		w.t.Fatal(err)
	}
}

// TestDiffConverges: from any kernel, one plan whose every op is accepted leads
// to the wanted state, whatever was there before, and a second is empty.
func TestDiffConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := foreigners(t)
		a, b := wanted(drawTable(t, "a")), wanted(drawTable(t, "b"))
		w := newWorld(t, foreign)
		w.sync(a)
		w.drawConns()
		w.drift()
		w.sync(b)
		if p := kernel.Diff(b, w.read()); !p.Empty() {
			t.Fatalf("a second diff is not empty:\n%s", text(p))
		}
		w.settle(b)
		fresh := newWorld(t, foreign)
		fresh.sync(b)
		if got, want := sameCapacity(w.kernel.State()), sameCapacity(fresh.kernel.State()); got != want {
			t.Fatalf("A then B is not B.\nA then B:\n%s\nB:\n%s", got, want)
		}
	})
}

func sameCapacity(s kernel.State) string {
	for i := range s.Sets {
		s.Sets[i].MaxElem = 0
	}
	return s.String()
}

// TestCleanupLeavesForeigners: a plan to nothing removes all that is ours and
// leaves what was there before byte for byte.
func TestCleanupLeavesForeigners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := foreigners(t)
		w := newWorld(t, foreign)
		before := w.kernel.State().String()
		a := wanted(drawTable(t, "a"))
		w.sync(a)
		w.drift()
		w.drawConns()
		w.sync(kernel.State{})
		// A built-in chain that holds no rules is the same as none.
		after := w.kernel.State()
		after.Chains = slices.DeleteFunc(after.Chains, func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
		if got := after.String(); got != before {
			t.Fatalf("after cleanup:\n%s\nbefore:\n%s", got, before)
		}
	})
}

// TestEveryPrefixIsSafe: after each op, and so after a crash at any point, our
// virtual servers are in the ownership set, and while building up no VIP is
// bound that has no virtual server.
func TestEveryPrefixIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		foreign := foreigners(t)
		w := newWorld(t, foreign)
		for _, label := range []string{"a", "b", "nothing"} {
			var want kernel.State
			if label != "nothing" {
				want = wanted(drawTable(t, label))
			}
			have := w.read()
			for _, op := range kernel.Diff(want, have).Ops {
				if op.Object.Kind() == kernel.KindChain {
					continue // one transaction; it has no part in this
				}
				if err := w.kernel.Apply(context.Background(), kernel.Plan{Ops: []kernel.Op{op}}); err != nil && op.Object.Kind() != kernel.KindSet {
					t.Fatalf("%s: %v", op, err)
				}
				safe(t, w.read(), foreign, op)
			}
			w.sync(want)
		}
	})
}

func safe(t *rapid.T, o kernel.Observed, foreign kernel.State, last kernel.Op) {
	owned := o.Ours()
	served := map[netip.Addr]bool{}
	for _, v := range o.Virtuals {
		served[v.Key.Addr.Addr()] = true
		theirs := slices.ContainsFunc(foreign.Virtuals, func(f kernel.Virtual) bool { return f == v })
		if theirs == slices.Contains(owned, v.Key) {
			t.Fatalf("after %s: %s: foreign %v, in the ownership set %v", last, v, theirs, !theirs)
		}
	}
	for _, a := range o.Addrs {
		if !served[a.Addr] && last.Verb != kernel.Remove {
			t.Fatalf("after %s: %s is bound and has no virtual server", last, a)
		}
	}
	for _, a := range o.Addrs {
		guarded := slices.ContainsFunc(o.Entries, func(e kernel.Entry) bool {
			return e.Addr == a.Addr && e.Set == names.Set(kernel.FamilyOf(a.Addr), kernel.IPVSIPs)
		})
		if !guarded {
			t.Fatalf("after %s: %s is bound and not guarded", last, a)
		}
	}
}

// TestDrainsEnd: with a deadline every drain ends, connections or not.
func TestDrainsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, kernel.State{})
		table := drawTable(t, "a")
		w.sync(wanted(table))
		for _, r := range w.read().Reals {
			w.kernel.SetConns(r.Key, kernel.Conns{Active: 1})
		}
		for i := range table {
			table[i].reals = nil
		}
		want := wanted(table)
		want.Policy.DrainTimeout = 30 * time.Second
		p := w.sync(want)
		for range 3 {
			if p.Draining == 0 {
				break
			}
			if p.Wake.IsZero() {
				t.Fatal("a drain with a deadline does not ask to be woken")
			}
			w.now = p.Wake
			p = w.sync(want)
		}
		if n := len(w.read().Reals); n != 0 {
			t.Fatalf("%d real servers are left after the deadline", n)
		}
	})
}

// TestHoldRemovesNothing: while not every source has spoken, plans only add.
func TestHoldRemovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, foreigners(t))
		w.sync(wanted(drawTable(t, "a")))
		w.drawConns()
		b := wanted(drawTable(t, "b"))
		b.Policy.Hold = true
		for _, op := range kernel.Diff(b, w.read()).Ops {
			// To forget a flow that nobody answers takes nothing away.
			if _, flow := op.Object.(kernel.Flow); op.Verb == kernel.Remove && !flow && !strings.Contains(op.String(), names.TempSets()) {
				t.Fatalf("held plan removes: %s", op)
			}
		}
	})
}

// TestAdvance: carrying a plan out on a reading gives what reading again gives,
// connections apart, and leaves the reading and what it shares as they were.
func TestAdvance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, foreigners(t))
		a := wanted(drawTable(t, "a"))
		w.sync(a)
		w.drawConns()
		have := w.read()
		if p := kernel.Diff(a, have); p.Empty() {
			have, _ = kernel.Settle(have, a, p)
			have.Fresh = rapid.Bool().Draw(t, "fresh")
		}
		before, wasWanted := have.String(), a.String()
		b := wanted(drawTable(t, "b"))
		b.Policy.Hold = rapid.Bool().Draw(t, "hold")
		p := kernel.Diff(b, have)
		if err := w.kernel.Apply(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		want := w.read()
		want.Fresh, want.Conns = false, nil
		check := func(how string, got kernel.Observed, ok bool) {
			if !ok {
				return
			}
			got.Chains = slices.DeleteFunc(slices.Clone(got.Chains), func(c kernel.Chain) bool { return c.BuiltIn() && c.Rules == "" })
			if got.String() != want.String() {
				t.Fatalf("%s:\n%s\nread:\n%s\nplan:\n%s", how, got, want, text(p))
			}
		}
		advanced, ok := kernel.Advance(have, p.Ops)
		check("advanced", advanced, ok)
		settled, ok := kernel.Settle(have, b, p)
		check("settled", settled, ok)
		if have.String() != before || a.String() != wasWanted {
			t.Fatalf("was:\n%s\nis:\n%s", before, have)
		}
		if ok && (settled.Settled == nil) != (b.Policy.Hold || len(p.Conflicts) > 0) {
			t.Fatalf("Settled is %v after a plan with hold %v and conflicts %v", settled.Settled, b.Policy.Hold, p.Conflicts)
		}
	})
}

// TestSettled: what is shared with the state that a reading was made equal to needs
// no comparison, whatever drains, and whoever else is there.
func TestSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, foreigners(t))
		w.sync(wanted(drawTable(t, "before")))
		w.drawConns()
		table := drawTable(t, "a")
		a := wanted(table)
		if p := w.sync(a); len(p.Conflicts) > 0 {
			return
		}
		for i := range table {
			if rapid.Bool().Draw(t, "other reals") {
				table[i].reals = table[i].reals[rapid.IntRange(0, len(table[i].reals)).Draw(t, "gone"):]
			}
		}
		b := wanted(table)
		share(&b.Sets, a.Sets)
		share(&b.Entries, a.Entries)
		share(&b.Virtuals, a.Virtuals)
		share(&b.Addrs, a.Addrs)
		share(&b.Routes, a.Routes)
		have := w.read()
		compared := kernel.Diff(b, have)
		have.Settled = &a
		if p := kernel.Diff(b, have); text(p) != text(compared) {
			t.Fatalf("plan:\n%s\nwithout Settled:\n%s", text(p), text(compared))
		}
	})
}

// share makes equal slices one.
func share[T comparable](to *[]T, from []T) {
	if slices.Equal(*to, from) {
		*to = from
	}
}

// TestTextRoundTrip: canonical text reads back to the same value.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, foreigners(t))
		w.sync(wanted(drawTable(t, "a")))
		w.drawConns()
		w.sync(wanted(drawTable(t, "b")))
		o := w.read()
		o.Policy = kernel.Policy{DrainTimeout: time.Minute, DeleteUnknown: true, ExcludeCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		got, err := kernel.ParseObserved(o.String())
		if err != nil {
			t.Fatalf("%v in:\n%s", err, o)
		}
		if got.String() != o.String() {
			t.Fatalf("got:\n%s\nwant:\n%s", got, o)
		}
	})
}

func FuzzParseObserved(f *testing.F) {
	f.Add(wanted(nil).String())
	f.Add("#: iptables\n*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j ACCEPT\nCOMMIT\n")
	f.Add("-A -t 10.0.0.1:80 -s mh -p 10 -M 24 -b flag-2\n-a -t 10.0.0.1:80 -r 10.2.0.1:8080 -m -w 3 # active 1 inactive 2 persist 0\n")
	f.Add("--set 900 120 300\n#: saved ipvs.udpTimeout before \"300\" ours \"60\"\n")
	f.Add("#: saved net.ipv4.ip_forward before \"0\" ours \"1\"\n#: drain 2026-01-01T00:00:00Z -u [fd00::1]:53 -r [fd00::2]:53\n")
	f.Fuzz(func(t *testing.T, s string) {
		o, err := kernel.ParseObserved(s)
		if err != nil {
			return
		}
		again, err := kernel.ParseObserved(o.String())
		if err != nil {
			t.Fatalf("own text does not parse: %v\n%s", err, o)
		}
		if again.String() != o.String() {
			t.Fatalf("%q gives\n%s\nwhich gives\n%s", s, o, again)
		}
	})
}
