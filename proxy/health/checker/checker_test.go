package checker

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// server is an endpoint on loopback that can be down.
type server struct {
	t    *testing.T
	addr netip.AddrPort
	l    net.Listener
}

func newServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: netip.MustParseAddrPort(l.Addr().String()), l: l}
	t.Cleanup(func() { s.l.Close() })
	return s
}

func (s *server) down() { s.l.Close() }

func (s *server) up() {
	var err error
	if s.l, err = net.Listen("tcp", s.addr.String()); err != nil {
		s.t.Fatal(err)
	}
}

// check is fast enough for a test.
func check() *sources.HealthCheck {
	c := sources.DefaultHealthCheck()
	c.Unset = 0
	c.Probe.Type = sources.CheckTCP
	c.Interval, c.FastInterval, c.DownInterval = 50*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	return &c
}

// table has one service with these endpoints.
func table(c *sources.HealthCheck, servers ...*server) sources.Table {
	s := sources.Service{
		Namespace: "default", Name: "web", Type: sources.ClusterIP, HealthCheck: c,
		Ports: []sources.Port{{Protocol: sources.TCP, Port: 80}},
	}
	for _, x := range servers {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{
			Addr: x.addr.Addr(), Weight: 1, Ready: true, Ports: []sources.EndpointPort{{Protocol: sources.TCP, Port: x.addr.Port()}},
		})
	}
	return sources.Table{Services: sources.ServicesOf(s)}
}

// rig is a checker that runs, and the part of the loop.
type rig struct {
	*Checker
	t     *testing.T
	wake  chan struct{}
	table sources.Table

	mu     sync.Mutex
	events []health.Event
	probes int
}

func run(t *testing.T, tab sources.Table) *rig {
	r := &rig{t: t, wake: make(chan struct{}, 1), table: tab}
	c, err := New(Options{
		StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Settings: Settings{Defaults: sources.DefaultHealthCheck()},
		Wake: func() { signal(r.wake) },
		Noticed: func(events []health.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, events...)
		},
		Probed: func(sources.CheckType, probe.Result) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.probes++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Checker = c
	var running sync.WaitGroup
	running.Go(func() { c.Run(t.Context()) })
	t.Cleanup(running.Wait) // it writes to StateDir
	return r
}

// weights are those of the table's endpoints now.
func (r *rig) weights() (list []uint32) {
	m, _ := r.Overlay(sources.Merged{Table: r.table}, &kernel.Observed{})
	for _, e := range m.Services.At(0).Endpoints {
		list = append(list, e.Weight)
	}
	return list
}

// await waits until the weights are as wanted, as the loop does: it looks when it is woken.
func (r *rig) await(want ...uint32) {
	r.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		if slices.Equal(r.weights(), want) {
			return
		}
		select {
		case <-r.wake:
		case <-limit:
			r.t.Fatalf("weights %v, want %v", r.weights(), want)
		}
	}
}

// probed waits for so many more probes.
func (r *rig) probed(n int) {
	r.t.Helper()
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.probes
	}
	before := count()
	for end := time.Now().Add(10 * time.Second); count() < before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%d of %d probes", count()-before, n)
		}
	}
}

func (r *rig) kinds() (list []health.Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		list = append(list, e.Kind)
	}
	return list
}

func TestDownAndUp(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := run(t, table(check(), a, b))
	r.await(1, 1)
	r.probed(6)
	b.down()
	r.await(1, 0)
	v := r.View()
	x := health.NewExplainer(v.Known, v.Now).Explain(v.Table.Services.At(0))[1]
	if x.Cause != health.IsDown || x.Verdict.Reason != "refused" || x.Source != 1 {
		t.Errorf("explained %+v", x)
	}
	if due, ok := r.Due(x.Target); ok && time.Until(due) > time.Second {
		t.Errorf("next probe due %s", due)
	}
	b.up()
	r.await(1, 1)
	r.probed(2)
	if k := r.kinds(); !slices.Contains(k, health.WentDown) || k[len(k)-1] != health.WentUp {
		t.Errorf("events %v", k)
	}
}

// The first results of endpoints that count as up change nothing, so they cause no sync.
func TestFirstResultsWakeNobody(t *testing.T) {
	r := run(t, table(check(), newServer(t), newServer(t)))
	r.await(1, 1)
	r.probed(8)
	if len(r.wake) > 0 {
		t.Error("woken")
	}
	for key, v := range r.View().Known.Verdicts.Of {
		if v.Phase != health.Up {
			t.Errorf("%s is %s", key, v.Phase)
		}
	}
}

// A first result counts at once if it asks for another share of the weight.
func TestFirstAnswerOfAnAgent(t *testing.T) {
	a := newServer(t)
	go func() {
		for {
			c, err := a.l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("drain\n"))
			c.Close()
		}
	}()
	c := check()
	c.Probe.Type, c.Probe.Port = sources.CheckAgent, a.addr.Port()
	run(t, table(c, a)).await(0)
}

// The loop asks for warnings after every sync, and does not wait while orders are written to a disk. Meanwhile time passes for
// the checker, and it follows new tables.
func TestUnreadWaitsForNoDisk(t *testing.T) {
	r := run(t, table(check(), newServer(t)))
	r.ordering.Lock() // as while the file is written
	defer r.ordering.Unlock()
	asked := make(chan struct{})
	go func() {
		_ = r.Unread()
		close(asked)
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
	for i := range 2 { // the first tick may be the one that waits
		r.Checker.mu.Lock()
		r.ticks = 0
		r.Checker.mu.Unlock()
		ticked := func() bool {
			r.Checker.mu.Lock()
			defer r.Checker.mu.Unlock()
			return r.ticks > 0
		}
		for end := time.Now().Add(10 * time.Second); !ticked(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no tick after %d", i)
			}
		}
	}
	dead := newServer(t)
	dead.down()
	r.table = table(check(), newServer(t), dead)
	r.await(1, 0)
}

// A reload with massFailure = "believe" ends a hold at once, also while the checker is blind.
func TestConfigureEndsHold(t *testing.T) {
	settings, believe := Settings{Defaults: sources.DefaultHealthCheck()}, Settings{Defaults: sources.DefaultHealthCheck(), Believe: true}
	for _, blind := range []string{"", "too many open files"} {
		woken := 0
		c, err := New(Options{StateDir: t.TempDir(), Settings: settings, Log: slog.New(slog.DiscardHandler), Wake: func() { woken++ }})
		if err != nil {
			t.Fatal(err)
		}
		tab := large(3)
		count := func() (held int) {
			m, _ := c.Overlay(sources.Merged{Table: tab}, &kernel.Observed{})
			for _, v := range c.View().Known.Verdicts.Of {
				if v.Held {
					held++
				}
			}
			if spared := m.Services.At(0).Endpoints[0].Spared; spared != (held == 0) {
				t.Errorf("%d are held, and the first endpoint serves although it is down: %t", held, spared)
			}
			return held
		}
		c.Overlay(sources.Merged{Table: tab}, &kernel.Observed{})
		c.mu.Lock()
		now := time.Now()
		for n := range 1 + settings.Defaults.Fall {
			for _, x := range health.Targets(tab) {
				c.note(c.board.Record(x.Key, health.Result{Good: n == 0, Reason: "refused", At: now}))
			}
		}
		for i := 4; blind != "" && i >= 0; i-- { // of a target that is gone
			c.note(c.board.Record(health.Key{}, health.Result{Void: true, Reason: blind, At: now.Add(-time.Duration(i) * time.Second)}))
		}
		c.mu.Unlock()
		if n := count(); n != 15 {
			t.Fatalf("%d of 15 are held", n)
		}
		c.Configure(settings)
		if n := count(); n != 15 || woken > 0 {
			t.Errorf("a reload that changes nothing: %d of 15 are held, woken %d times", n, woken)
		}
		c.Configure(believe)
		if n := count(); n != 0 || woken != 1 || !c.View().Holding.IsZero() {
			t.Errorf("blind %q: %d are held until %s, woken %d times", blind, n, c.View().Holding, woken)
		}
	}
}

// An edit of a check moves no connection: what was down by the old probe is down until the new one says otherwise.
func TestEditedCheckKeepsWhatIsDown(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := run(t, table(check(), a, b))
	r.await(1, 1)
	r.probed(6) // without a result a would wait for one after the second edit, and then all serve
	b.down()
	r.await(1, 0)
	for _, edit := range []func(*sources.HealthCheck){
		func(c *sources.HealthCheck) { c.Probe.Timeout += time.Second },
		func(c *sources.HealthCheck) {
			c.Initial, c.Probe.Timeout = sources.InitialDown, c.Probe.Timeout+time.Minute
		},
	} {
		c := check()
		edit(c)
		r.table = table(c, a, b)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 0}) {
			t.Errorf("weights %v after an edit", got)
		}
	}
	b.up()
	r.await(1, 1)
}

// An endpoint that must wait for its first result causes a sync when it has it.
func TestInitialDown(t *testing.T) {
	c := check()
	c.Initial = sources.InitialDown
	r := run(t, table(c, newServer(t)))
	if got := r.weights(); !slices.Equal(got, []uint32{0}) {
		t.Fatalf("weights %v", got)
	}
	r.await(1)
}

// What the kernel has with weight 0 was down before a restart, and stays so until it is up. Later tables ask the kernel
// nothing.
func TestStartsFromTheKernel(t *testing.T) {
	a, b := newServer(t), newServer(t)
	b.down()
	r := run(t, table(check(), a, b))
	r.table.Services.At(0).ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.1")}
	v := kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP)
	have := &kernel.Observed{State: kernel.State{
		Virtuals: []kernel.Virtual{{Key: v, Scheduler: "rr"}},
		Reals:    kernel.RealsOf([]kernel.Real{{Key: kernel.RealKey{Virtual: v, Addr: a.addr}, Weight: 1}, {Key: kernel.RealKey{Virtual: v, Addr: b.addr}}}),
	}}
	m, _ := r.Overlay(sources.Merged{Table: r.table}, have)
	if e := m.Services.At(0).Endpoints; e[0].Weight != 1 || e[1].Weight != 0 {
		t.Errorf("weights %d and %d", e[0].Weight, e[1].Weight)
	}
	if table := AtStart(r.table, r.Settings, Kept{}, have, time.Now()); table.Services.At(0).Endpoints[1].Weight != 0 {
		t.Errorf("AtStart gives weight %d", table.Services.At(0).Endpoints[1].Weight)
	}
	b.up()
	r.await(1, 1)
}

// A table without health checks is returned as it is, with its Delta.
func TestNothingChecked(t *testing.T) {
	r := run(t, table(nil, newServer(t)))
	delta := sources.Delta{Changes: []sources.Change{{Name: "web", Endpoints: true}}}
	for range 2 {
		m, wake := r.Overlay(sources.Merged{Table: r.table, Delta: delta}, &kernel.Observed{})
		if m.Services.At(0) != r.table.Services.At(0) || len(m.Delta.Changes) != 1 || !wake.IsZero() {
			t.Errorf("%+v, wake %s", m, wake)
		}
	}
}

// The Delta is from the table that was returned last, so that what went down in between is among its changes.
func TestDelta(t *testing.T) {
	a, b := newServer(t), newServer(t)
	r := run(t, table(check(), a, b))
	r.await(1, 1)
	r.probed(4)
	b.down()
	var deltas []sources.Delta
	for end := time.Now().Add(10 * time.Second); ; {
		m, _ := r.Overlay(sources.Merged{Table: r.table}, &kernel.Observed{})
		deltas = append(deltas, m.Delta)
		if m.Services.At(0).Endpoints[1].Weight == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not down")
		}
		time.Sleep(time.Millisecond)
	}
	last := deltas[len(deltas)-1]
	if len(last.Changes) != 1 || !last.OnlyEndpoints() {
		t.Errorf("delta %+v", last)
	}
	for _, d := range deltas[:len(deltas)-1] {
		if !d.Empty() {
			t.Errorf("delta %+v without a change", d)
		}
	}
}

// Another table has its own targets probed, and others no more.
func TestFollowsTheTable(t *testing.T) {
	a, b, c := newServer(t), newServer(t), newServer(t)
	r := run(t, table(check(), a, b))
	r.await(1, 1)
	r.probed(4)
	r.table = table(check(), b, c)
	c.down()
	r.await(1, 0)
	of := r.View().Known.Verdicts.Of
	for key := range of {
		if key.Addr == a.addr {
			t.Errorf("%s is still there", key)
		}
	}
	if n := r.Stats().Targets; n != 2 || len(of) != 2 {
		t.Errorf("%d targets, %d verdicts", n, len(of))
	}
}

// New defaults of the node count for the keys that a service does not give.
func TestConfigure(t *testing.T) {
	c := check()
	c.Unset = sources.HealthInterval
	r := run(t, table(c, newServer(t)))
	s := Settings{Defaults: sources.DefaultHealthCheck()}
	s.Defaults.Interval = 30 * time.Millisecond
	r.Configure(s)
	r.weights()
	r.probed(5)
	if got := r.View().Table.Services.At(0).HealthCheck.Interval; got != s.Defaults.Interval {
		t.Errorf("interval %s", got)
	}
}

func TestUnknownUser(t *testing.T) {
	if _, err := New(Options{Settings: Settings{ExecUser: "no-such-user"}}); err == nil {
		t.Error("no error")
	}
}

func TestResultOf(t *testing.T) {
	for _, c := range []struct {
		of   sources.CheckType
		from probe.Result
		want health.Result
	}{
		{sources.CheckTCP, probe.Result{Outcome: probe.OK}, health.Result{Good: true}},
		{sources.CheckHTTP, probe.Result{Outcome: probe.OK, Detail: "200 OK"}, health.Result{Good: true, Reason: "200 OK"}},
		{sources.CheckHTTP, probe.Result{Outcome: probe.Status, Code: 503}, health.Result{Reason: "status 503"}},
		{sources.CheckTCP, probe.Result{Outcome: probe.Void, Detail: "no file descriptors"},
			health.Result{Void: true, Reason: "void: no file descriptors"}},
		{sources.CheckExec, probe.Result{Outcome: probe.OK, Percent: 75, HasPercent: true},
			health.Result{Good: true, Percent: 75}},
		{sources.CheckExec, probe.Result{Outcome: probe.OK, HasPercent: true},
			health.Result{Good: true, Ask: health.AskDrain}},
		{sources.CheckAgent, probe.Result{Outcome: probe.Refused}, health.Result{Reason: "refused"}},
		{sources.CheckAgent, probe.Result{Outcome: probe.OK, HasPercent: true},
			health.Result{Good: true, Agent: true, Words: health.Words{HasPercent: true}}},
		{sources.CheckAgent, probe.Result{Outcome: probe.OK, Verdict: probe.Maint, Percent: 50, HasPercent: true},
			health.Result{Good: true, Agent: true, Words: health.Words{
				Ask: health.AskMaint, Asks: true, Percent: 50, HasPercent: true,
			}}},
		{sources.CheckAgent, probe.Result{Outcome: probe.OK, Speaks: true, Verdict: probe.Ready},
			health.Result{Good: true, Agent: true, Words: health.Words{Up: true, Asks: true}}},
		{sources.CheckAgent, probe.Result{Outcome: probe.Agent, Speaks: true, Detail: "fail"},
			health.Result{Reason: "agent: fail", Agent: true, Words: health.Words{Down: true}}},
	} {
		if got := resultOf(c.of, c.from, time.Time{}); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.from, got, c.want)
		}
	}
}
