package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/kernel/verify"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

var names = kernel.DefaultNames

// script is a source that emits what it is handed.
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

// table has one service of that many endpoints at 10.96.0.1:80.
func table(endpoints int) sources.Table {
	s := sources.Service{Namespace: "default", Name: "web", Type: sources.ClusterIP,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports:      []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}}}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 2, 0, byte(i + 1)}), Weight: 1})
	}
	return sources.Table{Services: []sources.Service{s}}
}

// rules are the least that shows what the loop does: one virtual server per
// service, with its ownership entry.
func rules(t sources.Merged, n kernel.Node, hold bool, _ []string) (*frontend.Frontends, kernel.State) {
	family := kernel.IPv4
	if len(t.Services) > 0 {
		family = kernel.FamilyOf(t.Services[0].ClusterIPs[0])
	}
	set := kernel.Set{Name: names.Set(family, kernel.VirtualServer), Type: kernel.HashIPPort, Family: family, MaxElem: 4096}
	s := kernel.State{Sets: []kernel.Set{set}, Policy: kernel.Policy{Hold: hold}}
	for _, svc := range t.Services {
		k := kernel.VirtualKey{Addr: netip.AddrPortFrom(svc.ClusterIPs[0], svc.Ports[0].Port), Proto: kernel.TCP}
		s.Virtuals = append(s.Virtuals, kernel.Virtual{Key: k, Scheduler: "rr", Netmask: uint8(family.Bits())})
		s.Entries = append(s.Entries, kernel.Entry{Set: set.Name, Addr: svc.ClusterIPs[0], Proto: kernel.TCP, Port: k.Addr.Port()})
		for _, e := range svc.Endpoints {
			s.Reals = append(s.Reals, kernel.Real{Key: kernel.RealKey{Virtual: k, Addr: netip.AddrPortFrom(e.Addr, 8080)}, Weight: e.Weight})
		}
	}
	s.Sort()
	return frontend.List(t.Table, n, frontend.Config{IPv6: true}), s
}

// run has the loop running on a fake kernel, inside a synctest bubble.
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

// all are the reports until now.
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

// pass lets time pass, and all that is due at its end happen.
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
	for _, real := range r.kernel.State().Reals {
		w = append(w, real.Weight)
	}
	return w
}

func TestChangesAreProgrammedFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(1))
		r.emit(table(2))
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		if reads, _ := r.kernel.Counts(); reads != 1 {
			t.Errorf("%d readings of the kernel for a start and a change, want 1", reads)
		}
		if c := r.last().Cause; c != proxy.CauseTable {
			t.Errorf("cause %q", c)
		}
	})
}

func TestIdleWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(3))
		_, before := r.kernel.Counts()
		pass(5 * time.Minute)
		reads, after := r.kernel.Counts()
		if after != before {
			t.Errorf("%d writes while idle", after-before)
		}
		if checks := len(r.kernel.Shards()); reads != 1 || checks != 10 {
			t.Errorf("%d readings and %d checks in 5 minutes with a syncPeriod of 30s, want 1 and 10", reads, checks)
		}
	})
}

// TestLargeKernelIsCheckedInParts: each check is of another part, a part that is as
// known hides no drift elsewhere for longer than a period, and drift has all read.
func TestLargeKernelIsCheckedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(many(2000, 5))
		r.kernel.Forget()
		pass(5 * time.Minute)
		parts := r.kernel.Shards()
		n := len(parts) / 10
		if n < 3 || len(parts) != 10*n {
			t.Fatalf("%d checks in 10 periods", len(parts))
		}
		for i, p := range parts[n:] {
			if p != parts[i] {
				t.Fatalf("check %d is of another part than the one a period before", n+i)
			}
		}
		reads, writes := r.kernel.Counts()
		if reads != 1 || writes == 0 {
			t.Fatalf("%d readings, %d writes", reads, writes)
		}

		gone := r.kernel.State().Reals[0]
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: gone}}}); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if again := r.kernel.State().Reals[0]; again != gone {
			t.Errorf("drift is not repaired after a period: %v", again)
		}
		if reads, now := r.kernel.Counts(); reads != 2 || now != writes+2 {
			t.Errorf("%d readings and %d writes, want 2 and the repair", reads, now-writes)
		}
		// What differed once is checked as one after a period, then in parts again.
		r.kernel.Forget()
		pass(time.Minute)
		if got := r.kernel.Shards(); len(got) < 2 || got[0] != verify.Everything || got[1] != parts[0] {
			t.Errorf("after drift %v was checked, want everything and then the parts from the first", got)
		}
	})
}

// TestEverythingIsCheckedWhenAsked, whatever part it is the turn of.
func TestEverythingIsCheckedWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(many(2000, 5))
		pass(11 * time.Second)
		r.kernel.Forget()
		r.proxy.Check(proxy.CauseAsked)
		pass(time.Millisecond)
		if got := r.kernel.Shards(); len(got) != 1 || got[0] != verify.Everything || !r.last().Full {
			t.Errorf("checks %v, full %v", got, r.last().Full)
		}
	})
}

// many has services of IPv6, of that many endpoints each.
func many(services, endpoints int) sources.Table {
	var t sources.Table
	for i := range services {
		vip := netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)})
		s := sources.Service{Namespace: "default", Name: vip.String(), Type: sources.ClusterIP, ClusterIPs: []netip.Addr{vip},
			Ports: []sources.Port{{Protocol: sources.TCP, Port: 80, TargetPort: 8080}}}
		for j := range endpoints {
			s.Endpoints = append(s.Endpoints, sources.Endpoint{Addr: netip.AddrFrom16([16]byte{0: 0xfc, 13: byte(j + 1), 14: byte(i >> 8), 15: byte(i)}), Weight: 1})
		}
		t.Services = append(t.Services, s)
	}
	return t
}

func TestDriftIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		gone := r.kernel.State()
		var ops []kernel.Op
		for _, v := range gone.Virtuals {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: v})
		}
		for _, e := range gone.Entries {
			ops = append(ops, kernel.Op{Verb: kernel.Remove, Object: e})
		}
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: ops}); err != nil {
			t.Fatal(err)
		}
		pass(31 * time.Second)
		if got := r.kernel.State().String(); got != gone.String() {
			t.Errorf("after drift:\n%s\nwant:\n%s", got, gone)
		}
		if !slices.ContainsFunc(r.all(), proxy.Report.Drift) {
			t.Error("no report tells of drift")
		}
	})
}

func TestFailuresAreRetriedSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusals atomic.Int32
		refusals.Store(4)
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() == kernel.KindReal && refusals.Load() > 0 {
					refusals.Add(-1)
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(1))
		began := time.Now()
		if !errors.Is(r.last().Err, syscall.EPERM) {
			t.Fatalf("error %v", r.last().Err)
		}
		for refusals.Load() > 0 || r.last().Err != nil {
			pass(50 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("served after %v; four refusals should cost 0.1+0.2+0.4+0.8 s", took)
		}
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v", got)
		}
	})
}

// Steps that wait for another program's lock fail late, and are tried again at
// once. A loop that goes on like that is alive, and is seen to be.
func TestLongSyncsAreNoHungLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 19 * time.Second
		r := start(t, func(r *run) {
			r.kernel.Fail = func(o kernel.Op) error {
				if o.Object.Kind() != kernel.KindReal {
					return nil
				}
				time.Sleep(long)
				return syscall.EAGAIN
			}
		})
		defer r.end()
		r.emit(table(1))
		for range 10 {
			asking, cancel := context.WithTimeout(t.Context(), long+time.Second)
			alive := r.proxy.Alive(asking)
			cancel()
			if !alive {
				t.Fatalf("no answer after %d syncs", len(r.all()))
			}
			pass(time.Second)
		}
	})
}

// Who stops svcproxy in the middle of a sync is not told of a failure.
func TestAStopInTheMiddleOfASyncIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := start(t, func(r *run) {
			r.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.kernel.Fail = func(kernel.Op) error { r.stop(); return context.Canceled }
		})
		r.source <- emission{table: table(1)}
		if err := <-r.done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if log.Len() > 0 || len(r.all()) > 0 {
			t.Errorf("%d reports, and a log of\n%s", len(r.all()), &log)
		}
	})
}

func TestDrainEndsWithTheLastConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		second := r.kernel.State().Reals[1].Key
		r.kernel.SetConns(second, kernel.Conns{Active: 1})
		r.emit(table(1))
		if got := r.weights(); !slices.Equal(got, []uint32{1, 0}) {
			t.Fatalf("weights %v while a connection lives, want [1 0]", got)
		}
		pass(10 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 0}) {
			t.Fatalf("weights %v after 10 s with the connection alive", got)
		}
		r.kernel.SetConns(second, kernel.Conns{})
		pass(3 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the connection has ended", got)
		}
	})
}

func TestReturningEndpointGetsItsWeightBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		r.kernel.SetConns(r.kernel.State().Reals[1].Key, kernel.Conns{Inactive: 1})
		r.emit(table(1))
		r.emit(table(2))
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		if ops := r.last().Plan.Ops; len(ops) != 1 || ops[0].Verb != kernel.Change {
			t.Errorf("ops %v, want one change", ops)
		}
	})
}

func TestNothingIsRemovedBeforeEverySourceHasSpoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(script)
		r := start(t, func(r *run) {
			_, served := rules(sources.Merged{Table: table(2)}, kernel.Node{}, false, nil)
			r.kernel = fake.New(names, kernel.Node{}, served)
			r.options.Kernel = r.kernel
			r.options.Feeds = append(r.options.Feeds, proxy.Feed{Name: "apiserver", Source: late})
		})
		defer r.end()
		r.emit(sources.Table{})
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Fatalf("weights %v while a source is silent", got)
		}
		if w := r.last().Waiting; !slices.Equal(w, []string{"apiserver"}) {
			t.Errorf("waiting for %v", w)
		}
		late <- emission{table: sources.Table{}}
		synctest.Wait()
		pass(time.Millisecond)
		if got := r.weights(); len(got) != 0 {
			t.Errorf("weights %v after both have spoken of nothing", got)
		}
	})
}

func TestFailedSourceKeepsItsTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		r.emit(table(2))
		r.source <- emission{err: errors.New("disk gone")}
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		if s := r.proxy.Sources()[0]; s.Err == nil {
			t.Error("the source's error cannot be seen")
		}
	})
}

func TestRefusalsAreSaidOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) { r.options.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer r.end()
		refused := func(messages ...string) {
			rejected := &sources.RejectedError{}
			for _, m := range messages {
				rejected.Problems = append(rejected.Problems, sources.Problem{Message: m})
			}
			r.source <- emission{table(1), rejected}
			synctest.Wait()
		}
		r.emit(table(1))
		refused("no key endponts")
		refused("no key endponts", "no port")
		refused("no key endponts", "no port")
		r.emit(table(1))
		refused("no port")
		for message, want := range map[string]int{"no key endponts": 1, "no port": 2, "nothing is refused any more": 1} {
			if got := strings.Count(log.String(), message); got != want {
				t.Errorf("%q is said %d times, want %d:\n%s", message, got, want, log.String())
			}
		}
	})
}

func TestBurstsAreOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.MinSyncPeriod = time.Second })
		defer r.end()
		r.emit(table(1))
		for i := range 100 {
			r.source <- emission{table: table(i % 5)}
			pass(time.Millisecond)
		}
		pass(2 * time.Second)
		if n := len(r.all()); n > 3 {
			t.Errorf("%d syncs for a burst of 100 tables within minSyncPeriod", n)
		}
		if got := r.weights(); len(got) != 4 {
			t.Errorf("%d real servers, want the last table's 4", len(got))
		}
	})
}

func TestAdoptsWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			_, served := rules(sources.Merged{Table: table(3)}, kernel.Node{}, false, nil)
			r.kernel = fake.New(names, kernel.Node{}, served)
			r.options.Kernel = r.kernel
		})
		defer r.end()
		r.emit(table(3))
		if _, writes := r.kernel.Counts(); writes != 0 {
			t.Errorf("%d writes to a kernel that was as wanted", writes)
		}
	})
}

func TestStopLeavesTheKernelServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.emit(table(2))
		before := r.kernel.State().String()
		r.end()
		if got := r.kernel.State().String(); got != before {
			t.Errorf("after the stop:\n%s\nbefore:\n%s", got, before)
		}
	})
}

type refused struct{}

func (refused) Watch(context.Context, func(sources.Table, error)) error {
	return &sources.RejectedError{Files: []string{"services.toml"}}
}

func TestRefusedAtFirstStartWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.Feeds = append(r.options.Feeds, proxy.Feed{Name: "file", Source: refused{}}) })
		err := <-r.done
		var rejected *sources.RejectedError
		if !errors.As(err, &rejected) {
			t.Errorf("Run: %v, want the rejection", err)
		}
		if reads, writes := r.kernel.Counts(); reads+writes != 0 {
			t.Errorf("the kernel was touched: %d readings, %d writes", reads, writes)
		}
		r.stop()
	})
}

// nothingGood is what a source of broken files says.
var nothingGood = &sources.RejectedError{Nothing: true, Incomplete: true, Problems: []sources.Problem{{Message: "broken"}}}

func TestNothingEverGoodEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.source <- emission{err: nothingGood}
		err := <-r.done
		var rejected *sources.RejectedError
		if !errors.As(err, &rejected) {
			t.Errorf("Run: %v, want the rejection", err)
		}
		if _, writes := r.kernel.Counts(); writes != 0 {
			t.Errorf("%d writes", writes)
		}
		r.stop()
	})
}

func TestNothingGoodKeepsWhatTheKernelServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			_, served := rules(sources.Merged{Table: table(2)}, kernel.Node{}, false, nil)
			r.kernel = fake.New(names, kernel.Node{}, served)
			r.options.Kernel = r.kernel
		})
		defer r.end()
		r.source <- emission{err: nothingGood}
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1, 1}) {
			t.Errorf("weights %v", got)
		}
		r.emit(table(1))
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the file was mended", got)
		}
	})
}

// TestBareKernelHoldsNothingBack: where nothing of ours was in the kernel, a source
// that is incomplete keeps nobody from removing what another one had added.
func TestBareKernelHoldsNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		defer r.end()
		incomplete := &sources.RejectedError{Incomplete: true, Problems: []sources.Problem{{Message: "broken"}}}
		for _, n := range []int{2, 1} {
			r.source <- emission{table(n), incomplete}
			pass(10 * time.Second)
			if got := r.weights(); len(got) != n {
				t.Errorf("weights %v, want %d", got, n)
			}
		}
	})
}

// duringRead is a kernel that does something while it is first read.
type duringRead struct {
	*fake.Kernel
	do func()
}

func (k *duringRead) Read(ctx context.Context) (kernel.Observed, error) {
	if k.do != nil {
		k.do()
		k.do = nil
	}
	return k.Kernel.Read(ctx)
}

// TestSourceThatSpeaksWhileTheKernelIsRead: the first sync has an empty table then,
// and says for whom it did not wait: READY comes with the next.
func TestSourceThatSpeaksWhileTheKernelIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) {
			r.options.Kernel = &duringRead{r.kernel, func() {
				r.source <- emission{table: table(2)}
				pass(time.Second)
			}}
		})
		defer r.end()
		pass(10 * time.Second)
		all := r.all()
		if len(all) < 2 || !slices.Equal(all[0].Waiting, []string{"file"}) || len(all[1].Waiting) > 0 {
			t.Fatalf("%d syncs, the first waiting for %v", len(all), all[0].Waiting)
		}
		if got := r.weights(); len(got) != 2 {
			t.Errorf("weights %v", got)
		}
	})
}

// TestPassedDeadlineIsNoBusyLoop: a real server whose drain is over but whose
// weight the kernel will not change is tried again with back-off.
func TestPassedDeadlineIsNoBusyLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		r := start(t, func(r *run) {
			r.options.Rules = func(t sources.Merged, n kernel.Node, hold bool, occupied []string) (*frontend.Frontends, kernel.State) {
				f, s := rules(t, n, hold, occupied)
				s.Policy.DrainTimeout = time.Second
				return f, s
			}
			r.kernel.Fail = func(o kernel.Op) error {
				if stuck.Load() && o.Object.Kind() == kernel.KindReal {
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(2))
		r.kernel.SetConns(r.kernel.State().Reals[1].Key, kernel.Conns{Active: 1})
		stuck.Store(true)
		r.emit(table(1))
		pass(time.Minute)
		if n := len(r.all()); n > 50 {
			t.Fatalf("%d syncs in a minute", n)
		}
		stuck.Store(false)
		pass(time.Minute)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v, want the drain at its end", got)
		}
	})
}

// TestConflictIsSaidOnce: for as long as it is one, however many syncs there are.
func TestConflictIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		foreign := kernel.Virtual{Key: kernel.VirtualKey{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Proto: kernel.TCP}, Scheduler: "sed", Netmask: 32}
		r := start(t, func(r *run) {
			r.kernel = fake.New(names, kernel.Node{}, kernel.State{Virtuals: []kernel.Virtual{foreign}})
			r.options.Kernel, r.options.Log = r.kernel, slog.New(slog.NewTextHandler(&log, nil))
		})
		defer r.end()
		r.emit(table(1))
		pass(5 * time.Minute)
		if n := strings.Count(log.String(), "not taken over"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		if err := r.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Remove, Object: foreign}}}); err != nil {
			t.Fatal(err)
		}
		pass(31 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the other one has gone", got)
		}
	})
}

// TestEndOfDrainIsNoDrift, not even when the full check finds it.
func TestEndOfDrainIsNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(r *run) { r.options.SyncPeriod = time.Second })
		defer r.end()
		r.emit(table(2))
		second := r.kernel.State().Reals[1].Key
		r.kernel.SetConns(second, kernel.Conns{Active: 1})
		r.emit(table(1))
		r.kernel.SetConns(second, kernel.Conns{})
		pass(3 * time.Second)
		if got := r.weights(); !slices.Equal(got, []uint32{1}) {
			t.Errorf("weights %v after the connection has ended", got)
		}
		if slices.ContainsFunc(r.all(), proxy.Report.Drift) {
			t.Error("the end of a drain is reported as drift")
		}
	})
}

func TestHealthyUntilASyncIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		r := start(t, func(r *run) {
			r.kernel.Fail = func(kernel.Op) error {
				if broken.Load() {
					return syscall.EPERM
				}
				return nil
			}
		})
		defer r.end()
		r.emit(table(1))
		pass(10 * time.Minute)
		if !r.proxy.Healthy() {
			t.Fatal("unhealthy while idle")
		}
		broken.Store(true)
		r.emit(table(2))
		pass(59 * time.Second)
		if !r.proxy.Healthy() {
			t.Error("unhealthy before twice syncPeriod")
		}
		pass(2 * time.Second)
		if r.proxy.Healthy() {
			t.Error("healthy with a change that waits for more than twice syncPeriod")
		}
		broken.Store(false)
		pass(time.Minute)
		if !r.proxy.Healthy() {
			t.Error("unhealthy after the change was programmed")
		}
	})
}

// Somebody's firewall in the way of what is served is a warning while it holds,
// logged once.
func TestFirewallInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, func(r *run) { r.options.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer r.end()
		r.kernel.SetFirewall([]kernel.Barrier{{Family: kernel.IPv4, Hook: "input", Verdict: "drop", Name: "iptables filter INPUT", Accepts: "-i lo"}})
		r.emit(table(1))
		const want = "iptables filter INPUT: no rule accepts -t 10.96.0.1:80, it is left to drop"
		if got := r.proxy.Snapshot().Warnings; !slices.Equal(got, []string{want}) {
			t.Errorf("warnings %q", got)
		}
		pass(2 * time.Minute)
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, &log)
		}
		r.kernel.SetFirewall(nil)
		pass(time.Minute)
		if got := r.proxy.Snapshot().Warnings; len(got) != 0 || !strings.Contains(log.String(), "nothing is in the way any more") {
			t.Errorf("warnings %q when it is gone, log:\n%s", got, &log)
		}
	})
}
