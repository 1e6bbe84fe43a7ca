// Package world draws random tables, kernels and foreign objects for property tests.
package world

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
)

var (
	Names = kernel.DefaultNames
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

	VIPs = addrs("10.96.0.1", "10.96.0.2", "10.96.0.3", "192.0.2.1", "fd00:96::1", "fd00:96::2")
	pods = addrs("10.2.0.1", "10.2.0.2", "10.2.0.3", "10.2.0.4", "fd00:2::1", "fd00:2::2", "fd00:2::3")
	Node = kernel.Node{Name: "n1", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}}}
)

func addrs(text ...string) []netip.Addr {
	var a []netip.Addr
	for _, s := range text {
		a = append(a, netip.MustParseAddr(s))
	}
	return a
}

// Table is a random service table.
type Table []Service

// Service is one virtual server of a Table.
type Service struct {
	key       kernel.VirtualKey
	set       kernel.SetName
	scheduler string
	affinity  bool
	Reals     []kernel.Real
}

func DrawTable(t *rapid.T, label string) Table {
	var table Table
	seen := map[kernel.VirtualKey]bool{}
	for i := range rapid.IntRange(0, 6).Draw(t, label+" services") {
		k := drawKey(t, fmt.Sprintf("%s %d", label, i))
		if seen[k] {
			continue
		}
		seen[k] = true
		s := Service{
			key:       k,
			set:       rapid.SampledFrom([]kernel.SetName{kernel.ClusterIP, kernel.ExternalIP, kernel.LoadBalancer, kernel.NodePortTCP}).Draw(t, "set"),
			scheduler: rapid.SampledFrom([]string{"rr", "wlc"}).Draw(t, "scheduler"),
			affinity:  rapid.Bool().Draw(t, "affinity"),
		}
		for _, pod := range rapid.SliceOfNDistinct(rapid.SampledFrom(pods), 0, 4, rapid.ID).Draw(t, "pods") {
			if kernel.FamilyOf(pod) == k.Family() {
				s.Reals = append(s.Reals, kernel.Real{
					Key:    kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(pod, 8080)},
					Weight: uint32(rapid.IntRange(0, 2).Draw(t, "weight")),
					Upper:  uint32(rapid.SampledFrom([]int{0, 0, 100}).Draw(t, "upper")),
				})
			}
		}
		table = append(table, s)
	}
	return table
}

func drawKey(t *rapid.T, label string) kernel.VirtualKey {
	return kernel.VirtualKey{
		Addr: rapid.SampledFrom(VIPs).Draw(t, label+" vip"), Port: rapid.SampledFrom([]uint16{53, 80}).Draw(t, "port"),
		Proto: rapid.SampledFrom([]kernel.Proto{kernel.TCP, kernel.UDP}).Draw(t, "proto"),
	}
}

// Wanted is the state for a table. It has less than mode ipvs makes, but every kind of
// object and every dependency between them.
func Wanted(table Table) kernel.State {
	s := settings(len(table))
	s.Links = []kernel.Link{{Name: Names.Device, Type: "dummy"}}
	var entries []kernel.Entry
	var reals []kernel.Real
	for i := range table {
		table[i].addTo(&s, uint32(100+len(table)%2))
		entries = append(entries, table[i].entries()...)
		reals = append(reals, table[i].Reals...)
	}
	s.Entries, s.Reals = kernel.EntriesOf(entries), kernel.RealsOf(reals)
	s.Sort() // what services share is there once
	for _, f := range []kernel.Family{kernel.IPv4, kernel.IPv6} {
		addSetsAndChains(&s, f)
	}
	s.Sort()
	return s
}

// settings are what a state with n services has but once. It changes with n.
func settings(n int) (s kernel.State) {
	s.Sysctls = []kernel.Sysctl{{Name: "net.ipv4.vs.conntrack", Value: "1"}}
	if n > 0 {
		s.Timeouts.TCP = uint32(900 + n%2*100) // 900 is the default of IPVS
	}
	if n > 1 {
		s.Sysctls = append(s.Sysctls, kernel.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"})
		s.Daemons = []kernel.SyncDaemon{{
			Role: kernel.SyncMaster, Link: "eth0", ID: uint8(n), MaxLen: 1400, Group: netip.MustParseAddr("224.0.0.81"), Port: 8848, TTL: 1,
		}}
	}
	if n > 2 {
		s.Timeouts.UDP = 30
	}
	return s
}

// addTo adds all of a service but its entries and real servers.
func (svc *Service) addTo(s *kernel.State, metric uint32) {
	v := kernel.Virtual{Key: svc.key, Scheduler: svc.scheduler, Netmask: uint8(svc.key.Family().Bits())}
	if svc.affinity {
		v.Flags, v.Timeout = kernel.FlagPersistent, 10800
		s.Policy.Drains = append(s.Policy.Drains, kernel.VirtualDrain{Virtual: svc.key, Timeout: 10 * time.Second})
	}
	s.Virtuals = append(s.Virtuals, v)
	if vip := svc.key.Addr; svc.set != kernel.NodePortTCP {
		s.Addrs = append(s.Addrs, kernel.Addr{Addr: vip, Link: Names.Device})
		if !svc.affinity {
			s.Announcements = append(s.Announcements, kernel.Announcement{Addr: vip, Table: 143, Metric: metric})
		}
	}
}

// entries returns a service's entries of sets.
func (svc *Service) entries() []kernel.Entry {
	f, vip := svc.key.Family(), svc.key.Addr
	member := func(set kernel.SetName) kernel.Entry {
		return kernel.Entry{Set: Names.Set(f, set), Addr: vip, Proto: svc.key.Proto, Port: svc.key.Port}
	}
	all := []kernel.Entry{member(kernel.VirtualServer)}
	if svc.set == kernel.NodePortTCP {
		all = append(all, kernel.Entry{Set: Names.Set(f, svc.set), Port: svc.key.Port})
	} else {
		all = append(all, member(svc.set), kernel.Entry{Set: Names.Set(f, kernel.IPVSIPs), Addr: vip})
	}
	for _, r := range svc.Reals {
		a := r.Key.Addr.Addr()
		all = append(all, kernel.Entry{
			Set: Names.Set(f, kernel.LoopBack), Addr: a, Proto: svc.key.Proto, Port: 8080, Second: netip.PrefixFrom(a, a.BitLen()),
		})
	}
	return all
}

// addSetsAndChains adds the sets that have the entries of s, and chains that name them.
func addSetsAndChains(s *kernel.State, f kernel.Family) {
	var rules []string
	for _, spec := range kernel.SetSpecs {
		set := kernel.Set{Name: Names.Set(f, spec.Name), Type: spec.Type, Family: f}
		n := s.Entries.Of(set.Name).Len()
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
		kernel.Chain{Family: f, Table: "filter", Name: "KUBE-IPVS-FILTER", Rules: "-m set --match-set " + Names.Set(f, kernel.IPVSIPs) + " dst -j REJECT"},
		kernel.Chain{Family: f, Table: "filter", Name: "INPUT", Rules: "-j KUBE-IPVS-FILTER"},
	)
}

// Foreigners draws objects of other programs, some on addresses and in chains that
// tables use too. No table wants the scheduler of their virtual servers, so none is ever
// adopted.
func Foreigners(t *rapid.T) kernel.State {
	s := kernel.State{
		Sysctls: []kernel.Sysctl{{Name: "net.ipv4.vs.conntrack", Value: "0"}, {Name: "net.ipv4.ip_forward", Value: "0"}},
		Sets:    []kernel.Set{{Name: "blocklist", Type: kernel.HashIP, Family: kernel.IPv4, MaxElem: 8}},
		Entries: kernel.EntriesOf([]kernel.Entry{{Set: "blocklist", Addr: VIPs[0]}}),
		Links:   []kernel.Link{{Name: "eth0", Type: "veth"}},
		Addrs:   []kernel.Addr{{Addr: VIPs[3], Link: "eth0"}},
		Chains: []kernel.Chain{
			{Family: kernel.IPv4, Table: "nat", Name: "OUTPUT", Rules: "-m set --match-set blocklist dst -j DROP\n-j MINE-OUT"},
			{Family: kernel.IPv4, Table: "nat", Name: "MINE-OUT", Rules: "-j RETURN"},
		},
	}
	var reals []kernel.Real
	for i := range rapid.IntRange(0, 3).Draw(t, "foreign virtuals") {
		k := drawKey(t, fmt.Sprintf("foreign %d", i))
		s.Virtuals = append(s.Virtuals, kernel.Virtual{Key: k, Scheduler: "sed", Netmask: uint8(k.Family().Bits())})
		pod := pods[0]
		if k.Family() == kernel.IPv6 {
			pod = pods[4]
		}
		reals = append(reals, kernel.Real{Key: kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(pod, 1)}, Weight: 7, Forward: kernel.Direct})
	}
	s.Reals = kernel.RealsOf(reals)
	s.Sort()
	return s
}

// World is a fake kernel with the loop's own state.
type World struct {
	T      *rapid.T
	Kernel *fake.Kernel
	Now    time.Time
	Memory kernel.Memory
}

func New(t *rapid.T, foreign kernel.State) *World {
	w := &World{T: t, Now: start}
	w.Kernel = fake.New(Names, Node, foreign)
	return w
}

func (w *World) Read() kernel.Observed {
	o, err := w.Kernel.Read(context.Background())
	if err != nil {
		w.T.Fatal(err)
	}
	return o
}

// Sync does one round of the loop, and fails if an op is refused.
func (w *World) Sync(want kernel.State) kernel.Plan {
	have := w.Read()
	p, then := plan.Diff(want, have, w.Memory, kernel.Now{Time: w.Now})
	if err := w.Kernel.Apply(context.Background(), p); err != nil {
		w.T.Fatalf("%v\nhave:\n%s\nwant:\n%s\nplan:\n%s", err, have, want, Text(p))
	}
	after := w.Read()
	w.Memory = then
	w.Memory.Owned = plan.Owned(&after, w.Memory.Owned)
	return p
}

// Diff is the plan of the next round, from any reading.
func (w *World) Diff(want kernel.State, have kernel.Observed) kernel.Plan {
	p, _ := plan.Diff(want, have, w.Memory, kernel.Now{Time: w.Now})
	return p
}

// Converge ends all connections, and with them all drains.
func (w *World) Converge(want kernel.State) {
	for _, r := range w.Read().Reals.All() {
		w.Kernel.SetConns(r.Key, kernel.Conns{})
	}
	w.Sync(want)
	if p := w.Sync(want); p.Draining != 0 {
		w.T.Fatalf("%d real servers drain without connections", p.Draining)
	}
}

func Text(p kernel.Plan) string {
	var b strings.Builder
	for _, o := range p.Ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

func (w *World) DrawConns() {
	for i, r := range w.Read().Reals.All() {
		w.Kernel.SetConns(r.Key, kernel.Conns{Active: uint32(rapid.IntRange(0, 1).Draw(w.T, fmt.Sprintf("conns %d", i)))})
	}
}

// Drift changes owned objects at random, as operators and other programs do.
func (w *World) Drift() {
	o := w.Read()
	foreign := func(k kernel.VirtualKey) bool { return !slices.Contains(w.Memory.Owned, k) }
	var ops []kernel.Op
	some := func(label string) bool { return rapid.IntRange(0, 3).Draw(w.T, label) == 0 }
	for i, e := range o.Entries.Slice() {
		if some(fmt.Sprintf("lose entry %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: e})
		}
	}
	for i, a := range o.Addrs {
		if some(fmt.Sprintf("lose address %d", i)) {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: a})
		}
	}
	for i, r := range o.Reals.All() {
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
	if err := w.Kernel.Apply(context.Background(), kernel.Plan{Ops: ops}); err != nil {
		w.T.Fatal(err)
	}
}
