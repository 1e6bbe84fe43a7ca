package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/sources"
)

// node is a running svcproxy over a kernel in memory, with its listeners on loopback.
type node struct {
	kernel  *fake.Kernel
	table   *config.Static // nil if another source has the services
	proxy   *proxy.Proxy
	metrics *metrics.Metrics
	meter   *meter
	checks  *checker.Checker
	hang    atomic.Bool // keeps every write to the kernel from ending

	health, site netip.AddrPort // listeners
	listener     *web.Listener  // at site
}

// start starts a node that serves a table, and returns when it does. It ends with the test.
func start(t testing.TB, table sources.Table) *node {
	t.Helper()
	source := config.NewStatic(table, nil)
	n := startFrom(t, proxy.Feed{Name: "static", Source: source})
	n.table = source
	return n
}

// startFrom is start with any sources. Services with a health check are probed.
func startFrom(t testing.TB, feeds ...proxy.Feed) *node {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	c := config.Default()
	here := kernel.Node{
		Name: "lb1", Primary4: netip.MustParseAddr("192.0.2.1"),
		Addrs: []kernel.NodeAddr{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Link: "eth0"}},
	}
	n := &node{kernel: fake.New(c.Names(), here, kernel.State{})}
	n.meter = &meter{kernel: n.kernel, start: time.Now()}
	rulesConfig := c.ForMode()
	rulesConfig.Frontends.IPv6 = true

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	n.kernel.After = func(kernel.Op) {
		for n.hang.Load() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	history, ring, started := &status.Recorder{}, &events.Ring{}, time.Now()
	recorder := &events.Recorder{Ring: ring}
	seen := &events.Health{
		Ring: ring, Log: log, Table: func() sources.Table { return n.checks.Brief().Table },
		Users: func(keys ...health.Key) []string { return n.checks.ServicesOf(keys...) },
	}
	synced := make(chan struct{}, 1)
	checks, err := checker.New(checker.Options{
		StateDir: t.TempDir(), Settings: checker.Settings{Defaults: sources.DefaultHealthCheck()}, Log: log,
		Wake: func() { n.proxy.Replan() },
		Noticed: func(list []health.Event) {
			seen.Noticed(list)
			n.metrics.Noticed(list)
		},
		Probed: func(of sources.CheckType, r probe.Result) {
			n.metrics.Probed(of, r.Outcome.String(), r.Void(), r.Duration)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.checks = checks
	n.proxy = proxy.New(proxy.Options{
		Kernel: n.kernel, Log: log, SyncPeriod: 30 * time.Second,
		Feeds: feeds, Health: checks,
		Rules: func(t sources.Merged, k kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
			with := rulesConfig
			with.Hold, with.Occupied = t.Keeps, occupied
			f := frontend.List(t.Table, k, with.Frontends)
			return f, ipvs.State(f, with)
		},
		OnSource: recorder.Source,
		OnSync: func(s *proxy.Snapshot) {
			history.Synced(s.Report)
			recorder.Synced(s)
			n.metrics.Synced(s)
			select {
			case synced <- struct{}{}:
			default:
			}
		},
	})
	reader := &status.Reader{
		Proxy: n.proxy, Recorder: history, Counters: n.meter, Health: checks.View,
		Daemon: func() status.Daemon {
			return status.Daemon{Version: "1.0.0", Node: here.Name, PID: os.Getpid(), Started: started, Mode: "ipvs", IPTables: "iptables v1.8.9 (nf_tables)", Config: status.Config{File: "/etc/svcproxy/svcproxy.toml"}}
		},
	}
	var outcomes []string
	for _, o := range probe.Outcomes() {
		outcomes = append(outcomes, o.String())
	}
	n.metrics = metrics.New(metrics.Options{
		Version: "1.0.0", Log: log, Status: reader.Status, Queued: n.proxy.Queued, Work: n.meter.work,
		Late: func() metrics.Lateness {
			s := checks.Stats()
			return metrics.Lateness{Probes: s.Started, Sum: s.LateSum, Bounds: probe.LateBounds(), Counts: s.Late[:]}
		},
		Outcomes:  outcomes,
		Frontends: func() *frontend.Frontends { return n.proxy.Snapshot().Frontends },
	})
	healthz := &web.Listener{Name: "healthz", Log: log, Handler: web.Health{
		Healthy: n.proxy.Healthy, Answered: n.metrics.Answered,
		Synced: func() time.Time { return n.proxy.Snapshot().Succeeded },
	}.Handler()}
	past := &status.Past{}
	site := &web.Listener{Name: "metrics", Log: log, Handler: web.Site{
		Metrics: n.metrics.Handler(), Mode: func() string { return "ipvs" }, Config: func() any { return map[string]string{"mode": "ipvs"} },
		Profiling: func() bool { return true }, Status: reader.Status, Detail: reader.Detail, Past: past, Events: ring,
	}.Handler()}
	running.Go(func() { checks.Run(ctx) })
	running.Go(func() { // ten times as often as the daemon does
		for tick := time.Tick(status.PastPeriod / 10); ctx.Err() == nil; <-tick {
			if err := reader.Sample(ctx, past); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	running.Go(func() {
		if err := n.proxy.Run(ctx); err != nil {
			t.Errorf("svcproxy ended: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait() // checks.Run writes files of stateDir at its end
		healthz.Close()
		site.Close()
	})
	<-synced
	for _, l := range []*web.Listener{healthz, site} {
		if err := l.Listen(netip.MustParseAddrPort("127.0.0.1:0"), true); err != nil {
			t.Fatal(err)
		}
	}
	n.health, n.site, n.listener = healthz.Addr(), site.Addr(), site
	return n
}

// order has root drain endpoints, as svcproxy drain does.
func (n *node) order(target, why string) error {
	s, err := health.ParseSelector(target)
	if err != nil {
		return err
	}
	return n.checks.Order(health.Override{Selector: s, Verb: health.Drain, Made: time.Now(), By: "root", Why: why}, true)
}

// connect gives a service's real servers that many connections, so that those that are removed drain.
func (n *node) connect(s sources.Service, conns uint32) {
	for _, r := range n.kernel.State().Reals.All() {
		if r.Key.Virtual.Addr == s.ClusterIPs[0] {
			n.kernel.SetConns(r.Key, kernel.Conns{Active: conns})
		}
	}
}

// meter counts traffic that is not there: each virtual server has its own pace, which goes up and down.
type meter struct {
	kernel *fake.Kernel
	start  time.Time
	reads  atomic.Int64 // of all counters: the history of ten minutes reads those of virtual servers when it is time
}

func (m *meter) Read(context.Context) (kernel.Counters, error) {
	m.reads.Add(1)
	return m.counters(), nil
}

func (m *meter) counters() kernel.Counters {
	state := m.kernel.State()
	seconds := time.Since(m.start).Seconds()
	c := kernel.Counters{Flows: 1200, MaxFlows: 262144}
	for i, v := range state.Virtuals {
		pace, wave := float64(3+i*7%40), 9+float64(i%5)
		// The integral of pace * (1 + sin), which never falls.
		conns := pace * (seconds + wave*(1-math.Cos(seconds/wave)))
		traffic := kernel.Traffic{Conns: uint64(conns), InPackets: uint64(9 * conns), OutPackets: uint64(12 * conns), InBytes: uint64(1500 * conns), OutBytes: uint64(22000 * conns)}
		c.Virtuals = append(c.Virtuals, kernel.VirtualCounters{Key: v.Key, Traffic: traffic})
	}
	for i, r := range state.Reals.All() {
		c.Reals = append(c.Reals, kernel.RealCounters{Key: r.Key, Weight: r.Weight, Active: uint32(5 + i%23), Inactive: uint32(i % 7)})
	}
	return c
}

func (m *meter) Virtuals(context.Context) ([]kernel.VirtualCounters, error) {
	return m.counters().Virtuals, nil
}

// Reals shares the traffic of a virtual server out to its real servers.
func (m *meter) Reals(ctx context.Context, of []kernel.VirtualKey) ([]kernel.RealTraffic, error) {
	c := m.counters()
	var list []kernel.RealTraffic
	for i, r := range c.Reals {
		if !slices.Contains(of, r.Key.Virtual) {
			continue
		}
		at := slices.IndexFunc(c.Virtuals, func(v kernel.VirtualCounters) bool { return v.Key == r.Key.Virtual })
		traffic := c.Virtuals[at].Traffic
		traffic.Conns = traffic.Conns * uint64(1+i%3) / 6
		list = append(list, kernel.RealTraffic{Key: r.Key, Traffic: traffic})
	}
	return list, nil
}

func (m *meter) work() metrics.Work {
	reads, writes := m.kernel.Counts()
	return metrics.Work{
		Sockets: []metrics.Socket{{Name: "ipvs", Messages: uint64(writes), Queries: uint64(reads), Syscalls: uint64(2 * (reads + writes))}},
		Tracked: map[kernel.Family]metrics.Tracked{kernel.IPv4: {}, kernel.IPv6: {}},
	}
}

// service makes one at 10.96.X.Y:80 with that many endpoints.
func service(i int, name string, endpoints int) sources.Service {
	s := sources.Service{
		Namespace: "default", Name: name, Type: sources.ClusterIP,
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i / 250), byte(1 + i%250)})},
		Ports:      []sources.Port{{Name: "http", Protocol: sources.TCP, Port: 80, TargetPort: 8080}},
		Origin:     sources.Origin{Source: "file", File: "/etc/svcproxy/services.toml", Line: 10 + 7*i},
	}
	for e := range endpoints {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{
			Addr:  netip.AddrFrom4([4]byte{10, byte(2 + e), byte(i / 250), byte(1 + i%250)}),
			Ports: []sources.EndpointPort{{Name: "http", Protocol: sources.TCP, Port: 8080}}, Weight: 1, Ready: true, Serving: true,
			NodeName: fmt.Sprintf("node-%d", e),
		})
	}
	return s
}

// tableOf sorts services into a table.
func tableOf(services ...sources.Service) sources.Table {
	t := sources.Table{Services: sources.ServicesOf(services...), Seen: time.Now()}
	t.Sort()
	return t
}

// await waits until something holds, and fails the test if that takes three minutes.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within three minutes: %s", what)
		}
	}
}
