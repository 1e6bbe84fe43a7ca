package proxy

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first random sequence")
	sequences = flag.Uint64("sequences", 50, "how many random sequences")
)

// Sequences of random steps: tables, health and orders, changes by other programs, failed ops, restarts, missing
// sources. After each step the kernel is what the last complete inputs say, nothing foreign has changed, and drift was
// reported exactly for what another program changed.
func TestRandomSequences(t *testing.T) {
	const steps = 50
	for seed := *firstSeed; seed < *firstSeed+*sequences; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSequence(t, seed)
				for n := range steps {
					if s.step(n); t.Failed() {
						t.Fatalf("step %d of seed %d:\n%s\nplan:\n%v", n, seed, strings.Join(s.did, "\n"), s.report.Plan)
					}
				}
			})
		})
	}
}

// sequence is a loop on a fake kernel, with other programs on the same kernel.
type sequence struct {
	*testing.T
	*rand.Rand
	kernel *fake.Kernel
	loop   *Proxy
	did    []string // in the steps so far
	report Report   // of the last sync

	tables  [2]sources.Table
	missing [2]bool
	weights map[netip.Addr]uint32 // of health and orders; others have those of the tables
	// changed has what another program changed and the loop has not touched since: each object as it was before, nil if it
	// was not there.
	changed map[string]change
	foreign kernel.State // objects of other programs
	// disowned virtual servers were not in the ownership set at a restart: they may be another program's.
	disowned map[kernel.VirtualKey]bool
	// draining is since when the loop knows real servers to drain.
	draining map[kernel.RealKey]time.Time
}

type change struct{ object, was kernel.Object }

var seqNode = kernel.Node{
	Name: "n1", Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}},
	Primary4: netip.MustParseAddr("192.0.2.1"),
}

func seqConfig() mode.Config {
	return mode.Config{Names: kernel.DefaultNames, MasqueradeBit: 14, DrainTimeout: 20 * time.Second}
}

func newSequence(t *testing.T, seed uint64) *sequence {
	s := &sequence{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0)), weights: map[netip.Addr]uint32{}, changed: map[string]change{},
		disowned: map[kernel.VirtualKey]bool{},
	}
	key := kernel.VirtualAt(netip.MustParseAddrPort("203.0.113.1:80"), kernel.TCP)
	s.foreign = kernel.State{
		Virtuals: []kernel.Virtual{{Key: key, Scheduler: "sed", Netmask: 32}},
		Sets:     []kernel.Set{{Name: "blocklist", Type: kernel.HashIP, Family: kernel.IPv4, MaxElem: 8}},
		Links:    []kernel.Link{{Name: "eth0", Type: "veth"}},
		Addrs:    []kernel.Addr{{Addr: netip.MustParseAddr("192.0.2.1"), Link: "eth0"}},
		Chains:   []kernel.Chain{{Family: kernel.IPv4, Table: "nat", Name: "MINE", Rules: "-j RETURN"}},
	}
	s.foreign.Reals = kernel.RealsOf([]kernel.Real{{
		Key: kernel.RealKey{Virtual: key, Addr: netip.MustParseAddrPort("10.9.0.1:1")}, Weight: 7,
	}})
	s.kernel = fake.New(kernel.DefaultNames, seqNode, s.foreign)
	s.restart()
	return s
}

// restart begins a new loop on the kernel, which knows nothing of the last one.
func (s *sequence) restart() {
	s.loop = New(Options{
		Kernel: s.kernel, Rules: seqRules(new(frontend.Cache).List, new(ipvs.Mode).State), Health: s,
		Log: slog.New(slog.DiscardHandler), Feeds: []Feed{{Name: "file"}, {Name: "static"}},
		SyncPeriod: time.Hour, OnSync: func(now *Snapshot) { s.report = now.Report },
	})
	s.loop.setPeriods(periods{time.Hour, 0})
	clear(s.changed) // what was changed before is not known
	clear(s.draining)
	read := s.owned()
	for _, v := range read.Virtuals {
		set := kernel.DefaultNames.Set(v.Key.Family(), kernel.VirtualServer)
		if !read.Entries.Has(kernel.Entry{Set: set, Addr: v.Key.Addr, Proto: v.Key.Proto, Port: v.Key.Port}) {
			s.disowned[v.Key] = true
		}
	}
	for i := range s.tables {
		if s.missing[i] = s.IntN(3) == 0; !s.missing[i] {
			s.loop.in.put(i, s.tables[i], nil)
		}
	}
}

// seqRules are those of mode ipvs, with caches or without.
func seqRules(
	list func(sources.Merged, kernel.Node, frontend.Config) *frontend.Frontends,
	state func(*frontend.Frontends, mode.Config) kernel.State,
) Rules {
	return func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
		c := seqConfig()
		c.Hold, c.Occupied = t.Keeps, occupied
		f := list(t, n, c.Frontends)
		return f, state(f, c)
	}
}

// Overlay gives endpoints the weights of health and orders.
func (s *sequence) Overlay(m sources.Merged, _ *kernel.Observed) (sources.Merged, time.Time) {
	services := slices.Clone(m.Services.Slice())
	for i := range services {
		services[i].Endpoints = slices.Clone(services[i].Endpoints)
		for j := range services[i].Endpoints {
			if w, ordered := s.weights[services[i].Endpoints[j].Addr]; ordered {
				services[i].Endpoints[j].Weight = w
			}
		}
	}
	m.Services = sources.ServicesOf(services...)
	m.Delta = sources.Compare(s.loop.next.Table, m.Table)
	return m, time.Time{}
}

// step changes something and syncs.
func (s *sequence) step(n int) {
	s.kernel.Fail = nil
	what := "nothing"
	switch x := s.IntN(10); {
	case n == 0, x < 3:
		i := s.IntN(2)
		what = fmt.Sprintf("table %d", i)
		s.tables[i], s.missing[i] = s.drawTable(i), false
		s.loop.in.put(i, s.tables[i], nil)
	case x < 5:
		a := s.endpoint()
		s.weights[a] = uint32(s.IntN(3))
		what = fmt.Sprintf("%s has weight %d", a, s.weights[a])
		s.loop.Replan()
	case x < 8:
		what = s.meddle()
		for range s.IntN(4) {
			what += ", " + s.meddle()
		}
		s.loop.Check("")
	case x == 8:
		s.restart()
		what = fmt.Sprintf("restart, missing %v", s.missing)
	}
	if s.IntN(6) == 0 {
		what += ", ops fail"
		s.kernel.Fail = func(kernel.Op) error {
			if s.IntN(4) == 0 {
				return syscall.EPERM
			}
			return nil
		}
	}
	s.connect()
	s.did = append(s.did, what)
	s.sync()
	time.Sleep(time.Duration(s.IntN(15)) * time.Second)
}

// sync is a sync with all that is to hold after it.
func (s *sequence) sync() {
	first := s.loop.pace.lastSync.IsZero()
	before := s.owned()
	if err := s.loop.sync(context.Background()); err != nil {
		s.Errorf("%v", err)
	}
	after := s.owned()
	s.did[len(s.did)-1] += fmt.Sprintf(": %s, error %v", s.report.Plan.Summary(), s.report.Err)
	s.foreignStays()
	s.driftIsReported(first, &before, &after)
	if s.loop.keeps {
		for _, op := range s.report.Plan.Ops {
			if op.Verb == kernel.Remove && op.Object.Kind() != kernel.KindFlow {
				s.Errorf("removed although a table is missing: %s", op)
			}
		}
	}
	if s.report.Err == nil {
		sameAsRead(s, s.kernel, &s.loop.reading.have)
		s.isAsWanted()
	}
}

func (s *sequence) owned() kernel.State {
	o, err := s.kernel.Read(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	return o.State
}

// foreignStays checks that nothing foreign was changed.
func (s *sequence) foreignStays() {
	all := s.kernel.State()
	for o := range s.foreign.Objects() {
		if kernel.Rows[o.Kind()].Objects != nil && kernel.Rows[o.Kind()].Objects.Find(all, o) != o {
			s.Errorf("%s of another program was changed", o)
		}
	}
}

// driftIsReported compares the repairs with what other programs changed. What a sync made otherwise than it was is
// none.
func (s *sequence) driftIsReported(first bool, before, after *kernel.State) {
	reported := map[string]bool{}
	for _, op := range s.report.Repairs {
		k := keyOf(op.Object)
		reported[k] = true
		if _, changed := s.changed[k]; !changed || first {
			s.Errorf("%s is reported as drift, and nobody changed it", op)
		}
	}
	for k, c := range s.changed {
		find := kernel.Rows[c.object.Kind()].Objects.Find
		was, is := find(*before, c.object), find(*after, c.object)
		switch {
		case is == c.was:
			if !reported[k] && was != is {
				s.Errorf("%s was repaired and not reported", c.object)
			}
			delete(s.changed, k)
		case s.report.Err == nil, was != is: // it is wanted otherwise by now
			if reported[k] {
				s.Errorf("%s is reported as drift, and is as it is wanted now", c.object)
			}
			delete(s.changed, k)
		}
	}
}

// keyOf names an object in any of its versions.
func keyOf(o kernel.Object) string {
	switch v := o.(type) {
	case kernel.Virtual:
		return v.Key.String()
	case kernel.Real:
		return v.Key.String()
	case kernel.Chain:
		return fmt.Sprint("chain ", v.Family, v.Table, v.Name)
	case kernel.Sysctl:
		return v.Name
	case kernel.Set:
		return v.Name
	case kernel.Swap:
		return v.To
	}
	return o.String()
}

// isAsWanted makes the wanted state from the inputs, with no cache, and checks that nothing is left to do but drains.
func (s *sequence) isAsWanted() {
	var tables []sources.Table
	for i := range s.tables {
		if s.missing[i] {
			tables = append(tables, sources.Table{})
		} else {
			tables = append(tables, s.tables[i])
		}
	}
	m := sources.Merger{NoneBefore: s.loop.merger.NoneBefore}
	merged := m.Merge(OnNode(sources.HostFacts{}, seqNode), s.loop.input.waiting, tables...)
	merged, _ = s.Overlay(merged, nil)
	var occupied []string
	if merged.Keeps {
		occupied = s.loop.reading.occupied()
	}
	list := func(m sources.Merged, n kernel.Node, c frontend.Config) *frontend.Frontends {
		return frontend.List(m.Table, n, c)
	}
	_, want := seqRules(list, ipvs.State)(merged, seqNode, occupied)
	read, err := s.kernel.Read(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	p, _ := plan.Diff(want, read, s.loop.reading.memory, kernel.Now{Time: s.loop.pace.lastSync})
	p.Ops = slices.DeleteFunc(p.Ops, func(o kernel.Op) bool { return o.Object.Kind() == kernel.KindFlow })
	conflict := slices.ContainsFunc(p.Conflicts, func(c kernel.Conflict) bool { return !s.disowned[c.Want.Key] })
	if !p.Empty() || conflict {
		s.Errorf("the kernel is not as the inputs say:\n%s", p)
	}
	s.drainsEnd(&want, &read)
}

// drainsEnd checks that no real server drains for longer than it may.
func (s *sequence) drainsEnd(want *kernel.State, read *kernel.Observed) {
	draining := map[kernel.RealKey]time.Time{}
	now := s.loop.pace.lastSync
	for _, r := range read.Reals.All() {
		_, wanted := kernel.FindVirtual(want.Virtuals, r.Key.Virtual)
		if s.loop.keeps || !wanted || want.Reals.Has(r.Key) || s.disowned[r.Key.Virtual] {
			continue
		}
		if draining[r.Key] = now; !s.draining[r.Key].IsZero() {
			draining[r.Key] = s.draining[r.Key]
		}
		if drained := now.Sub(draining[r.Key]); drained >= want.Policy.DrainTimeout {
			s.Errorf("%s drains for %s", r, drained)
		}
	}
	s.draining = draining
}

// endpoint draws an address of an endpoint.
func (s *sequence) endpoint() netip.Addr {
	return netip.AddrFrom4([4]byte{10, 2, 0, byte(1 + s.IntN(5))})
}

// drawTable draws the table of a source: its services have VIPs of their own.
func (s *sequence) drawTable(source int) (t sources.Table) {
	for i := range 3 {
		if s.IntN(3) == 0 {
			continue
		}
		svc := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%d-%d", source, i), Type: sources.ClusterIP,
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(source), byte(1 + i)})},
			Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		}
		if s.IntN(2) == 0 {
			svc.Ports[0].Protocol = sources.UDP
		}
		if s.IntN(4) == 0 {
			svc.Type, svc.Ports[0].NodePort = sources.NodePort, uint16(30000+10*source+i)
		}
		for range s.IntN(4) {
			a := s.endpoint()
			if !slices.ContainsFunc(svc.Endpoints, func(e sources.Endpoint) bool { return e.Addr == a }) {
				svc.Endpoints = append(svc.Endpoints, sources.Endpoint{
					Addr: a, Ports: []sources.EndpointPort{{Protocol: svc.Ports[0].Protocol, Port: 8080}},
					Weight: uint32(1 + s.IntN(2)), Ready: true, Serving: true,
				})
			}
		}
		t.Services = t.Services.Append(svc)
	}
	return t
}

// connect opens and ends connections of real servers.
func (s *sequence) connect() {
	for _, r := range s.owned().Reals.All() {
		s.kernel.SetConns(r.Key, kernel.Conns{Active: uint32(min(s.IntN(6), 1))})
	}
}

// meddle changes an object of ours as another program does, and notes everything that this changes.
func (s *sequence) meddle() string {
	before := s.owned()
	var ours []kernel.Object
	for o := range before.Objects() {
		objects := kernel.Rows[o.Kind()].Objects
		if objects != nil && objects.Find(s.foreign, o) == nil && o.Kind() != kernel.KindSet {
			ours = append(ours, o)
		}
	}
	if len(ours) == 0 {
		return "nothing to change"
	}
	op := kernel.Op{Verb: kernel.Remove, Object: ours[s.IntN(len(ours))]}
	switch o := op.Object.(type) {
	case kernel.Real:
		if s.IntN(2) == 0 {
			o.Weight += 1 + uint32(s.IntN(2))
			op = kernel.Op{Verb: kernel.Change, Object: o}
		}
	case kernel.Virtual:
		if s.IntN(2) == 0 {
			o.Scheduler = "lc"
			op = kernel.Op{Verb: kernel.Change, Object: o}
		}
	case kernel.Chain:
		o.Rules = ""
		if !o.BuiltIn() {
			op = kernel.Op{Verb: kernel.Change, Object: o}
		}
	case kernel.Sysctl:
		o.Value = "7"
		op = kernel.Op{Verb: kernel.Change, Object: o}
	case kernel.Timeouts, kernel.Link:
		return "nothing"
	}
	if err := s.kernel.Apply(context.Background(), kernel.Plan{Ops: []kernel.Op{op}}); err != nil {
		return fmt.Sprintf("another program fails: %v", err)
	}
	after := s.owned()
	for kind := range kernel.Rows {
		objects := kernel.Rows[kind].Objects
		if objects == nil {
			continue
		}
		d := objects.Differences(before, after)
		for d != nil {
			was, is := d.Next()
			o := was
			if o == nil {
				o = is
			}
			if o == nil {
				break
			}
			if _, known := s.changed[keyOf(o)]; !known {
				s.changed[keyOf(o)] = change{o, was}
			}
		}
	}
	return "another program: " + op.String()
}
