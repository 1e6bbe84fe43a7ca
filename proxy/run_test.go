package proxy_test

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

var names = kernel.DefaultNames

// script is a source that emits what is sent to it.
type script chan emission

type emission struct {
	table sources.Table
	err   error
}

func (s script) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-s:
			emit(e.table, e.err)
		}
	}
}

// table returns one service at 10.96.0.1:80 with that many endpoints.
func table(endpoints int) sources.Table {
	s := sources.Service{Namespace: "default", Name: "web", Type: sources.ClusterIP,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}}}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 2, 0, byte(i + 1)}), Weight: 1})
	}
	return sources.Table{Services: sources.ServicesOf(s)}
}

// rules are the smallest rules that show what the loop does: one virtual server per
// service, with its ownership entry.
func rules(t sources.Merged, n kernel.Node, _ []string) (*frontend.Frontends, kernel.State) {
	family := kernel.IPv4
	if t.Services.Len() > 0 {
		family = kernel.FamilyOf(t.Services.At(0).ClusterIPs[0])
	}
	set := kernel.Set{Name: names.Set(family, kernel.VirtualServer), Type: kernel.HashIPPort, Family: family, MaxElem: 4096}
	s := kernel.State{Sets: []kernel.Set{set}, Policy: kernel.Policy{Hold: t.Keeps}}
	for _, svc := range t.Services.All() {
		k := kernel.VirtualKey{Addr: svc.ClusterIPs[0], Port: svc.Ports[0].Port, Proto: kernel.TCP}
		s.Virtuals = append(s.Virtuals, kernel.Virtual{Key: k, Scheduler: "rr", Netmask: uint8(family.Bits())})
		s.Entries = s.Entries.With(nil, []kernel.Entry{{Set: set.Name, Addr: svc.ClusterIPs[0], Proto: kernel.TCP, Port: k.Port}})
		for _, e := range svc.Endpoints {
			s.Reals = s.Reals.With(nil, []kernel.Real{{Key: kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(e.Addr, 8080)}, Weight: e.Weight}})
		}
	}
	s.Sort()
	return frontend.List(t.Table, n, frontend.Config{IPv6: true}), s
}

// run is a loop that runs on a fake kernel in a synctest bubble.
type run struct {
	t       *testing.T
	kernel  *fake.Kernel
	options proxy.Options // until New
	proxy   *proxy.Proxy
	source  script
	done    chan error
	stop    context.CancelFunc

	mu      sync.Mutex
	reports []proxy.Report
}

func (r *run) report(now *proxy.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, now.Report)
}

// all returns the reports until now.
func (r *run) all() []proxy.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports)
}

func start(t *testing.T, prepare func(*run)) *run {
	r := &run{t: t, kernel: fake.New(names, kernel.Node{}, kernel.State{}), source: make(script), done: make(chan error, 1)}
	r.options = proxy.Options{
		Kernel: r.kernel, Rules: rules, Feeds: []proxy.Feed{{Name: "file", Source: r.source}}, Log: slog.New(slog.DiscardHandler),
		SyncPeriod: 30 * time.Second, OnSync: r.report,
	}
	if prepare != nil {
		prepare(r)
	}
	r.proxy = proxy.New(r.options)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.done <- r.proxy.Run(ctx) }()
	return r
}

func (r *run) emit(t sources.Table) {
	r.source <- emission{table: t}
	synctest.Wait()
	pass(time.Millisecond)
}

// pass lets time pass and waits for everything that is due at its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *run) end() {
	r.stop()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run: %v", err)
	}
}

func (r *run) last() proxy.Report {
	r.t.Helper()
	all := r.all()
	if len(all) == 0 {
		r.t.Fatal("no sync was made")
	}
	return all[len(all)-1]
}

func (r *run) weights() []uint32 {
	var w []uint32
	for _, real := range r.kernel.State().Reals.All() {
		w = append(w, real.Weight)
	}
	return w
}

// many returns IPv6 services with that many endpoints each.
func many(services, endpoints int) sources.Table {
	var t sources.Table
	for i := range services {
		vip := netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)})
		s := sources.Service{Namespace: "default", Name: vip.String(), Type: sources.ClusterIP, ClusterIPs: []netip.Addr{vip},
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}}}
		for j := range endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.AddrFrom16([16]byte{0: 0xfc, 13: byte(j + 1), 14: byte(i >> 8), 15: byte(i)}), Weight: 1})
		}
		t.Services = t.Services.Append(s)
	}
	return t
}

func (refused) Watch(context.Context, func(sources.Table, error)) error {
	return &sources.RejectedError{Files: []string{"services.toml"}}
}
