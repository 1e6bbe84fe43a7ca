package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/testdata/modetest"
)

// BenchmarkOneChange is what one change costs at several sizes of the table, from the table that a source emits to the
// last of what follows a sync. The kernel is in memory.
func BenchmarkOneChange(b *testing.B) {
	for what := range changes {
		for _, checked := range []bool{false, true} {
			for _, services := range []int{500, 5000, 50000} {
				b.Run(fmt.Sprintf("%s/checked=%v/services=%d", what, checked, services), func(b *testing.B) {
					change := changing(b, services, checked, what)
					b.ReportAllocs()
					before := processTime()
					for b.Loop() {
						change()
					}
					b.ReportMetric(float64((processTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
				})
			}
		}
	}
}

// TestOneChangeAnyTable: what a change copies does not grow with the table. In time it cannot be tested, but what is
// copied is most of it.
func TestOneChangeAnyTable(t *testing.T) {
	for _, c := range []struct {
		what    string
		checked bool
		most    uint64 // times what it copies among 500 services
	}{
		{"weight", false, 2}, {"weight", true, 2}, {"endpoint", false, 2}, {"endpoint", true, 2}, {"endpoint of this node", false, 2}, {"endpoint of this node", true, 2},
	} {
		copied := func(services int) uint64 {
			change := changing(t, services, c.checked, c.what)
			change()
			change()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const rounds = 20
			for range rounds {
				change()
			}
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / rounds
		}
		small, large := copied(500), copied(50000)
		t.Logf("%s, checked %v: 500 services: %d bytes, 50,000: %d", c.what, c.checked, small, large)
		if large > c.most*small {
			t.Errorf("%s, checked %v: %d bytes among 50,000 services, and %d among 500", c.what, c.checked, large, small)
		}
	}
}

// changes make another table of one with the service at an index in another form.
var changes = map[string]func(services []sources.Service, i int) []sources.Service{
	"weight": func(services []sources.Service, i int) []sources.Service {
		s := &services[i]
		s.Endpoints = slices.Clone(s.Endpoints)
		s.Endpoints[0].Weight = 5
		return services
	},
	"endpoint":              func(services []sources.Service, i int) []sources.Service { return more(services, i, "elsewhere") },
	"endpoint of this node": func(services []sources.Service, i int) []sources.Service { return more(services, i, here) },
	"service":               func(services []sources.Service, i int) []sources.Service { return slices.Delete(services, i, i+1) },
}

// here is the node of these tests. It has an endpoint of each of the first ownServices services.
const (
	here        = "here"
	ownServices = 100
)

// more adds an endpoint on a node to a service.
func more(services []sources.Service, i int, node string) []sources.Service {
	s := &services[i]
	e := s.Endpoints[len(s.Endpoints)-1]
	e.Addr, e.NodeName = e.Addr.Next(), node
	s.Endpoints = append(slices.Clone(s.Endpoints), e)
	return services
}

// changing serves a table of services with two endpoints each. change changes one, or changes it back, and returns after
// the sync.
func changing(t testing.TB, services int, checked bool, what string) (change func()) {
	one := modetest.Big(services, 2)
	for i := range ownServices {
		one.Services.At(i).Endpoints[0].NodeName = here
	}
	for i := range one.Services.Len() {
		one.Services.At(i).Ports[0].Protocol = sources.UDP // real servers of UDP go without a drain
		for k := range one.Services.At(i).Endpoints {
			one.Services.At(i).Endpoints[k].Ports[0].Protocol = sources.UDP
		}
	}
	if checked {
		check := sources.DefaultHealthCheck()
		check.Probe.Type = sources.CheckTCP
		for i := range one.Services.Len() {
			one.Services.At(i).HealthCheck = &check
		}
	}
	emit := serving(t, one)
	other := sources.Table{Services: sources.ServicesOf(changes[what](one.Services.Slice(), services/2)...)}
	one = one.After(other, sources.Compare(other, one)) // the source of files knows what it changed
	other = other.After(one, sources.Compare(one, other))
	emit(one)
	return func() {
		emit(other)
		one, other = other, one
	}
}

// processTime is the processor time of this process so far.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// tables is a source that emits what is sent to it.
type tables chan sources.Table

func (s tables) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-s:
			emit(t, nil)
		}
	}
}

// serving runs the loop with all that follows it, as the daemon does. The kernel has the first table already. emit
// returns after the table's sync.
func serving(b testing.TB, first sources.Table) (emit func(sources.Table)) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f, log, dir := config.AddFlags(flags), slog.New(slog.DiscardHandler), b.TempDir()
	cur, err := config.Start(config.Options{Flags: f, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	d := &daemon{current: cur, mode: new(ipvs.Mode), drained: openNodeDrain(dir)}
	var p *proxy.Proxy
	d.checker, err = checker.New(checker.Options{StateDir: filepath.Join(dir, "state"), Settings: d.setup().Health(), Log: log, Wake: func() { p.Replan() }})
	if err != nil {
		b.Fatal(err)
	}
	node := kernel.Node{Name: here}
	c := d.setup().forMode()
	k := fake.New(kernel.DefaultNames, node, ipvs.State(frontend.List(first, node, c.Frontends), c))
	source := make(tables)
	p = proxy.New(proxy.Options{
		Kernel: k, Log: log, Health: d.checker, Announcer: &announcer{daemon: d}, Feeds: []proxy.Feed{{Name: "file", Source: source}},
		SyncPeriod: time.Hour, Served: func(sources.Incumbents) {}, Remember: func(kernel.Record) {},
		Rules: func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
			c := d.setup().forMode()
			c.Hold, c.Occupied = t.Keeps, occupied
			f := d.frontends.List(t, n, c.Frontends)
			return f, d.mode.State(f, c)
		},
	})
	newConsole(consoleOptions{
		proxy: p, current: cur, log: log, about: status.Daemon{Mode: "ipvs"}, counters: counters{k}, checker: d.checker, drained: d.drained,
		work: func() metrics.Work { return metrics.Work{} }, files: files{}, warnings: func() []string { return nil },
	})
	synced, shown := make(chan struct{}), p.OnSync
	p.OnSync = func(now *proxy.Snapshot) {
		shown(now)
		if !now.Report.Causes.Has(proxy.CauseTable) && !now.Report.Causes.Has(proxy.CauseStart) {
			return
		}
		if now.Report.Err != nil {
			b.Error(now.Report.Err)
		}
		synced <- struct{}{}
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return func(t sources.Table) { source <- t; <-synced }
}
