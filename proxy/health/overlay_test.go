package health

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/svcproxy/svcproxy/sources"
)

// world is a random table with checks and verdicts, for properties. Without shares no weight is multiplied.
type world struct {
	table     sources.Table
	verdicts  Verdicts
	overrides Overrides
	keys      []Key
	now       time.Time
}

func drawCheck(t *rapid.T, shares bool) *sources.HealthCheck {
	c := standard()
	c.Probe.Type = rapid.SampledFrom([]sources.CheckType{sources.CheckTCP, sources.CheckPing, sources.CheckDNS}).Draw(t, "type")
	c.OnDown = rapid.SampledFrom([]sources.OnDown{sources.DownDrain, sources.DownCut}).Draw(t, "on down")
	c.OnAllDown = rapid.SampledFrom([]sources.OnAllDown{sources.AllDownOpen, sources.AllDownClosed}).Draw(t, "on all down")
	c.Initial = rapid.SampledFrom([]sources.Initial{sources.InitialKernel, sources.InitialDown}).Draw(t, "initial")
	if rapid.Bool().Draw(t, "limit") {
		c.MinHealthy = rapid.IntRange(0, 3).Draw(t, "min healthy")
	}
	if shares {
		c.SlowStart = rapid.SampledFrom([]time.Duration{0, 8 * time.Second}).Draw(t, "slow start")
		if rapid.IntRange(0, 3).Draw(t, "agent") == 0 {
			c.Probe.Type = sources.CheckAgent
		}
	}
	return &c
}

func drawService(t *rapid.T, name string, shares bool) sources.Service {
	s := sources.Service{Namespace: "default", Name: name, Type: sources.ClusterIP,
		Ports: []sources.Port{{Name: "a", Protocol: sources.TCP, Port: 80}, {Name: "b", Protocol: sources.UDP, Port: 81}}}
	if rapid.IntRange(0, 4).Draw(t, "checked") > 0 {
		s.HealthCheck = drawCheck(t, shares)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "endpoints") {
		addr := fmt.Sprintf("10.2.0.%d", i+1)
		if rapid.IntRange(0, 3).Draw(t, "ipv6") == 0 {
			addr = fmt.Sprintf("fd00::%d", i+1)
		}
		e := sources.Endpoint{
			Addr: netip.MustParseAddr(addr), Weight: uint32(rapid.IntRange(0, 3).Draw(t, "weight")),
			Ready: rapid.IntRange(0, 5).Draw(t, "ready") > 0, Backup: rapid.IntRange(0, 3).Draw(t, "backup") == 0,
			Unchecked: rapid.IntRange(0, 6).Draw(t, "unchecked") == 0,
			Ports:     []sources.EndpointPort{{Name: "a", Protocol: sources.TCP, Port: 8080}},
		}
		if rapid.Bool().Draw(t, "both ports") {
			e.Ports = append(e.Ports, sources.EndpointPort{Name: "b", Protocol: sources.UDP, Port: 8081})
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	slices.SortFunc(s.Endpoints, func(a, b sources.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return s
}

func drawVerdict(t *rapid.T, shares bool) Verdict {
	v := Verdict{State: State{Phase: rapid.SampledFrom([]Phase{Unknown, Up, Up, Up, Failing, Down, Down, Recovering}).Draw(t, "phase")}}
	v.Held = v.Phase.IsDown() && rapid.IntRange(0, 9).Draw(t, "held") == 0
	v.Ask = rapid.SampledFrom([]Ask{AskNothing, AskNothing, AskNothing, AskNothing, AskDrain, AskMaint}).Draw(t, "ask")
	if shares && rapid.IntRange(0, 3).Draw(t, "share") == 0 {
		v.Percent = uint16(rapid.IntRange(1, 200).Draw(t, "percent"))
	}
	return v
}

func drawOverride(t *rapid.T, shares bool, now time.Time) Override {
	target := rapid.SampledFrom([]string{"10.2.0.1", "10.2.0.2:8080", "s1/10.2.0.1", "s2/10.2.0.3", "10.2.0.0/31", "fd00::/64", "s0/fd00::1", "node=n"}).Draw(t, "target")
	s, err := ParseSelector(target)
	if err != nil {
		t.Fatal(err)
	}
	o := Override{Selector: s, Made: now, Verb: rapid.SampledFrom([]Verb{Drain, Disable, Reweigh}).Draw(t, "verb")}
	if o.Verb == Reweigh {
		o.Weight.N = uint32(rapid.IntRange(0, 4).Draw(t, "n"))
		if shares && rapid.Bool().Draw(t, "percentage") {
			o.Weight = Weight{uint32(rapid.IntRange(0, 150).Draw(t, "percentage")), true}
		}
	}
	if rapid.Bool().Draw(t, "ends") {
		o.Until = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "for")) * time.Second)
	}
	return o
}

func drawWorld(t *rapid.T, shares bool) *world {
	w := &world{now: epoch, verdicts: Verdicts{Of: map[Key]Verdict{}}}
	for i := range 3 {
		w.table.Services = w.table.Services.Append(drawService(t, fmt.Sprintf("s%d", i), shares))
	}
	w.retarget()
	for _, k := range w.keys {
		w.verdicts.Of[k] = drawVerdict(t, shares)
	}
	w.verdicts.Blind = rapid.IntRange(0, 9).Draw(t, "blind") == 0
	for range rapid.IntRange(0, 3).Draw(t, "overrides") {
		w.override(t, shares)
	}
	return w
}

func (w *world) retarget() {
	w.keys = nil
	for _, target := range Targets(w.table) {
		w.keys = append(w.keys, target.Key)
	}
}

func (w *world) override(t *rapid.T, shares bool) {
	var err error
	if w.overrides, err = w.overrides.Add(drawOverride(t, shares, w.now)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) known() Known { return Known{Verdicts: w.verdicts, Overrides: w.overrides} }

// TestOverlayIsIdempotent: it also shares what it does not change, and leaves its argument alone. Each port has a target
// of its own here: one that is judged by another port would have lost that, if its endpoint was split.
func TestOverlayIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		for _, s := range w.table.Services.All() {
			if s.HealthCheck != nil && s.HealthCheck.Probe.Type != sources.CheckPing {
				s.HealthCheck.Probe.Type = sources.CheckExec
			}
		}
		w.retarget()
		for _, k := range w.keys {
			w.verdicts.Of[k] = drawVerdict(t, false)
		}
		before := fmt.Sprintf("%+v", w.table.Services.Slice())
		once := Overlay(w.table, w.known(), w.now)
		if after := fmt.Sprintf("%+v", w.table.Services.Slice()); after != before {
			t.Fatalf("the table changed from\n%s\nto\n%s", before, after)
		}
		if twice := Overlay(once.Table, w.known(), w.now); !twice.Services.Same(once.Services) {
			t.Fatalf("once\n%+v\ntwice\n%+v", once.Services.Slice(), twice.Services.Slice())
		}
		for _, c := range sources.Compare(w.table, once.Table).Changes {
			if c.Service {
				t.Fatalf("%s: more than endpoints changed", c.FullName())
			}
		}
		for i := range once.Services.Len() {
			a, b := w.table.Services.At(i).Endpoints, once.Services.At(i).Endpoints
			if !same(a, b) && sameEndpoints(a, b) {
				t.Fatalf("%s: equal endpoints in other memory", once.Services.At(i).Name)
			}
		}
	})
}

// TestNothingKnown: without checks, backups and overrides the table is returned as it is.
func TestNothingKnown(t *testing.T) {
	table := sized(10, 3, nil)
	if got := Overlay(table, Known{}, epoch); !got.Services.Same(table.Services) || got.Unusual != nil || !got.Wake.IsZero() {
		t.Errorf("%+v", got)
	}
	check := standard()
	check.Probe.Type = sources.CheckTCP
	checked := sized(10, 3, &check)
	if got := Overlay(checked, Known{}, epoch); !got.Services.Same(checked.Services) {
		t.Error("endpoints without results are not taken as they are")
	}
}

// TestOverlayAgainstModel holds who serves to the definition, written for one group at a time.
func TestOverlayAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		w.verdicts.Blind = false
		got := Overlay(w.table, w.known(), w.now)
		for i := range w.table.Services.Len() {
			s := w.table.Services.At(i)
			for _, p := range s.Ports {
				for _, six := range []bool{false, true} {
					want, have := w.serving(s, p, six), group(got.Services.At(i), p, six)
					if !slices.Equal(want, have) {
						t.Fatalf("%s port %s, IPv6 %v: %v get connections, want %v", s.Name, p.Name, six, have, want)
					}
				}
			}
		}
	})
}

// group lists the endpoints of a group that get connections.
func group(s *sources.Service, p sources.Port, six bool) (list []netip.Addr) {
	for _, e := range s.Endpoints {
		if _, ok := portNamed(e, p); ok && e.Addr.Is6() == six && e.Weight > 0 && e.Ready {
			list = append(list, e.Addr)
		}
	}
	return list
}

func portNamed(e sources.Endpoint, p sources.Port) (int, bool) {
	i := slices.IndexFunc(e.Ports, func(o sources.EndpointPort) bool { return o.Name == p.Name && o.Protocol == p.Protocol })
	return i, i >= 0
}

// serving is the model: those that may serve, then those of them that are up, then what to do if these are too few.
func (w *world) serving(s *sources.Service, p sources.Port, six bool) []netip.Addr {
	var may, up, backups, backupsUp, waiting []netip.Addr
	m := newMatcher(w.overrides, w.now)
	for _, e := range s.Endpoints {
		k, ok := portNamed(e, p)
		if !ok || e.Addr.Is6() != six || !e.Ready {
			continue
		}
		out, weight := m.find(s, &e, e.Ports[k].Port)
		if weight != nil {
			e.Weight = weight.Weight.N
		}
		v, isChecked := Verdict{State: State{Phase: Up}}, false
		if s.HealthCheck != nil {
			if key, ok := new(interned).key(s, &e, k); ok {
				v, isChecked = w.verdicts.Of[key], true
			}
		}
		if out != nil || e.Weight == 0 || isChecked && v.Ask != AskNothing {
			continue
		}
		isUp := v.Held || v.Phase.IsUp() || v.Phase == Unknown && s.HealthCheck.Initial != sources.InitialDown
		list, listUp := &may, &up
		if e.Backup {
			list, listUp = &backups, &backupsUp
		}
		*list = append(*list, e.Addr)
		if isUp {
			*listUp = append(*listUp, e.Addr)
		} else if v.Phase == Unknown && (!e.Backup || len(may) == 0) {
			waiting = append(waiting, e.Addr)
		}
	}
	closed, least := false, 0
	if c := s.HealthCheck; c != nil {
		closed, least = c.OnAllDown == sources.AllDownClosed, min(c.MinHealthy, len(may))
	}
	all := may
	if len(may) == 0 {
		all = backups
	}
	onlyWaiting := 0
	for _, a := range all {
		if slices.Contains(waiting, a) {
			onlyWaiting++
		}
	}
	switch {
	case len(up) > 0 && len(up) < least:
		return may
	case len(up) > 0:
		return up
	case len(backupsUp) > 0:
		return backupsUp
	case closed || onlyWaiting == len(all):
		return nil
	}
	return all
}

// TestCacheIsOverlay: whatever changes, the cache has what Overlay says with the slow starts that Next says, and
// shares what did not change.
func TestCacheIsOverlay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		var c Cache
		var served sources.Table
		var ramping Ramps
		var changed []Key
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			got := c.Overlay(w.table, w.known(), changed, w.now)
			k := w.known()
			k.Ramps = ramping
			want := Overlay(w.table, k, w.now)
			if ramping = nextRamps(ramping, served, want.Table, w.now); step == 0 && len(ramping) > 0 {
				t.Fatal("a slow start after our own")
			}
			k.Ramps = ramping
			want = Overlay(w.table, k, w.now)
			if d := sources.Compare(want.Table, got.Table); len(d.Changes) > 0 || !slices.EqualFunc(want.Unusual, got.Unusual, sameUnusual) || !want.Wake.Equal(got.Wake) {
				t.Fatalf("step %d: got\n%+v\nwant\n%+v", step, got, want)
			}
			if again := c.Overlay(w.table, w.known(), changed, w.now); !again.Services.Same(got.Services) {
				t.Fatalf("step %d: the same again is other memory", step)
			}
			served = got.Table
			changed = w.change(t)
		}
	})
}

// change makes something different, and returns the targets whose verdicts are.
func (w *world) change(t *rapid.T) (changed []Key) {
	switch rapid.IntRange(0, 6).Draw(t, "change") {
	case 0:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
	case 1:
		w.override(t, true)
	case 2, 3: // other endpoints of a service
		w.table.Services = sources.ServicesOf(w.table.Services.Slice()...)
		i := rapid.IntRange(0, w.table.Services.Len()-1).Draw(t, "service")
		*w.table.Services.At(i) = drawService(t, w.table.Services.At(i).Name, true)
		w.retarget()
	case 4: // another service
		w.table.Services = sources.ServicesOf(w.table.Services.Slice()...)
		if n := w.table.Services.Len(); n > 1 && rapid.Bool().Draw(t, "remove") {
			w.table.Services = sources.ServicesOf(w.table.Services.Slice()[1:]...)
		} else {
			s := drawService(t, fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(t, "name")), true)
			if _, there := w.table.Lookup(s.Namespace, s.Name); !there {
				w.table.Services = w.table.Services.Append(s)
				w.table.Sort()
			}
		}
		w.retarget()
	default:
		if len(w.keys) > 0 {
			k := rapid.SampledFrom(w.keys).Draw(t, "target")
			w.verdicts.Of[k] = drawVerdict(t, true)
			changed = append(changed, k)
		}
	}
	return changed
}

// sized is a table of services with one port.
func sized(services, endpoints int, c *sources.HealthCheck) sources.Table {
	var t sources.Table
	addr := netip.MustParseAddr("10.128.0.1")
	for i := range services {
		s := sources.Service{
			Namespace: "default", Name: fmt.Sprintf("s%05d", i), Type: sources.ClusterIP, HealthCheck: c,
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80}},
		}
		for range endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: addr, Weight: 1, Ready: true, Serving: true,
				Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: 8080}}})
			addr = addr.Next()
		}
		t.Services = t.Services.Append(s)
	}
	return t
}

func sameUnusual(a, b Unusual) bool { return reflect.DeepEqual(a, b) }

// nextRamps is what the cache keeps up to date: the slow starts of all services after the served table changes.
func nextRamps(r Ramps, was, is sources.Table, now time.Time) Ramps {
	all := Ramps{}
	for i := range is.Services.Len() {
		s := is.Services.At(i)
		if !ramps(s) {
			continue
		}
		if before, ok := was.Lookup(s.Namespace, s.Name); ok {
			if own := r[keyOf(s)].next(&before, s, now); len(own) > 0 {
				all[keyOf(s)] = own
			}
		}
	}
	return all
}
