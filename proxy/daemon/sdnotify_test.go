package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// stubLoop answers with its fields.
type stubLoop struct {
	mu      sync.Mutex
	now     *proxy.Snapshot
	sources []proxy.SourceState
	stuck   bool
}

func (l *stubLoop) set(change func(*stubLoop)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *stubLoop) Snapshot() *proxy.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *stubLoop) Sources() []proxy.SourceState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sources
}

func (l *stubLoop) Running() *proxy.Running { return nil }

func (l *stubLoop) Alive(ctx context.Context) bool {
	l.mu.Lock()
	stuck := l.stuck
	l.mu.Unlock()
	if stuck {
		<-ctx.Done()
	}
	return !stuck
}

// systemd records the messages it receives.
type systemd struct {
	mu   sync.Mutex
	said []string
}

func (h *systemd) send(state string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, state)
	return nil
}

// take returns the messages since the last take.
func (h *systemd) take() string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	said := strings.Join(h.said, "|")
	h.said = nil
	return strings.ReplaceAll(said, "\n", " ")
}

// notify runs a notifier of the loop until the test ends.
func notify(t *testing.T, l *stubLoop, watchdog time.Duration) (*notifier, *systemd) {
	h := &systemd{}
	n := newNotifier(l, slog.New(slog.DiscardHandler), h.send, watchdog)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		n.run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if said := h.take(); !strings.HasSuffix(said, "STOPPING=1") {
			t.Errorf("at the end systemd was told %q", said)
		}
	})
	return n, h
}

func want(t *testing.T, h *systemd, said string) {
	t.Helper()
	if got := h.take(); got != said {
		t.Errorf("systemd was told\n%q, want\n%q", got, said)
	}
}

// The clock of a synctest bubble begins at midnight of 2000-01-01 UTC.
func synchronised(services, reals int) *proxy.Snapshot {
	now := time.Now().UTC()
	return &proxy.Snapshot{
		Report:    proxy.Report{Planned: now, Start: now, Duration: 3 * time.Millisecond},
		Succeeded: now.Add(3 * time.Millisecond),
		Table:     sources.Table{Services: sources.ServicesOf(make([]sources.Service, services)...)},
		Want:      kernel.State{Reals: kernel.RealsOf(make([]kernel.Real, reals))},
	}
}

func TestReadyAfterTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubLoop{sources: []proxy.SourceState{{Name: "file"}}}
		n, h := notify(t, l, 0)
		want(t, h, "STATUS=not yet synced; waiting for the services files")
		time.Sleep(5 * time.Second)
		l.set(func(l *stubLoop) {
			l.sources = []proxy.SourceState{{Name: "file", Delivered: true}}
			l.now = synchronised(12, 40)
		})
		n.update()
		time.Sleep(statusPause)
		want(t, h, "READY=1 STATUS=12 services, 40 real servers, synced 00:00:05 (3 ms)")

		// An unchanged status is not sent again, and updates within a pause are one message.
		n.update()
		n.update()
		time.Sleep(statusPause)
		want(t, h, "")
		l.set(func(l *stubLoop) { l.now = synchronised(1, 1) })
		n.update()
		time.Sleep(2 * statusPause)
		want(t, h, "STATUS=1 service, 1 real server, synced 00:00:07 (3 ms)")
	})
}

func TestReadyWithoutASourceThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubLoop{sources: []proxy.SourceState{{Name: "file", Delivered: true}, {Name: "apiserver", Err: errors.New("dial tcp 10.0.0.1:6443: connection refused"), Since: time.Now().UTC()}}}
		l.now = synchronised(12, 40)
		l.now.Report.Waiting = []string{"apiserver"}
		_, h := notify(t, l, 0)
		status := "STATUS=12 services, 40 real servers, synced 00:00:00 (3 ms); waiting for source apiserver; source apiserver: dial tcp 10.0.0.1:6443: connection refused (since 00:00:00)"
		want(t, h, status)
		time.Sleep(readyLimit - time.Second)
		want(t, h, "")
		time.Sleep(time.Second)
		want(t, h, "READY=1 "+status)
	})
}

func TestReloading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubLoop{}
		n, h := notify(t, l, 0)
		n.reloading()() // nothing is sent before READY
		want(t, h, "STATUS=not yet synced")
		l.set(func(l *stubLoop) { l.now = synchronised(2, 3) })
		n.update()
		time.Sleep(statusPause)
		h.take()
		one, two := n.reloading(), n.reloading()
		want(t, h, "RELOADING=1")
		one()
		one()
		want(t, h, "")
		two()
		want(t, h, "READY=1 STATUS=2 services, 3 real servers, synced 00:00:00 (3 ms)")
	})
}

func TestWatchdogIsFedByTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubLoop{now: synchronised(0, 0)}
		_, h := notify(t, l, 30*time.Second)
		h.take()
		time.Sleep(11 * time.Second)
		want(t, h, "WATCHDOG=1")
		time.Sleep(10 * time.Second)
		want(t, h, "WATCHDOG=1")
		l.set(func(l *stubLoop) { l.stuck = true })
		time.Sleep(5 * time.Minute)
		want(t, h, "")
		l.set(func(l *stubLoop) { l.stuck = false })
		time.Sleep(21 * time.Second)
		if said := h.take(); !strings.Contains(said, "WATCHDOG=1") {
			t.Errorf("a loop that answers again: %q", said)
		}
	})
}

// logText is a log that may be read while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A loop that answers is not enough: WATCHDOG also needs a health checker that makes its checks when they are due.
func TestWatchdogIsFedByTheHealthChecker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		var hung atomic.Bool
		h := &systemd{}
		n := newNotifier(&stubLoop{now: synchronised(0, 0)}, slog.New(slog.NewTextHandler(&log, nil)), h.send, 30*time.Second)
		n.probes = func(now time.Time) bool { return !hung.Load() && now.Equal(time.Now()) }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.run(ctx)
		h.take()
		time.Sleep(11 * time.Second)
		want(t, h, "WATCHDOG=1")
		hung.Store(true)
		time.Sleep(10 * time.Second)
		want(t, h, "")
		if !strings.Contains(log.String(), "health checks are overdue") {
			t.Errorf("before systemd acts the log has %q", log.String())
		}
		time.Sleep(5 * time.Minute)
		want(t, h, "")
		hung.Store(false)
		time.Sleep(10 * time.Second)
		want(t, h, "WATCHDOG=1")
	})
}

// An operator whose process was ended by systemd reads why in the log. So the log has the
// reason before systemd acts.
func TestTheLogHasTheReasonBeforeSystemdActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		const limit = 30 * time.Second
		n := newNotifier(&stubLoop{now: synchronised(0, 0), stuck: true}, slog.New(slog.NewTextHandler(&log, nil)), func(string) error { return nil }, limit)
		ctx, cancel := context.WithTimeout(t.Context(), limit-time.Second)
		defer cancel()
		n.run(ctx)
		if !strings.Contains(log.String(), "the main loop does not answer") {
			t.Errorf("a second before systemd acts the log has %q", log.String())
		}
	})
}

func TestStatusText(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 31, 2, 0, time.UTC)
	failed := proxy.Report{Err: errors.New("reading the kernel: no buffer space\nsecond line")}
	table, state := sources.Table{Services: sources.ServicesOf(make([]sources.Service, 3)...)}, kernel.State{Reals: kernel.RealsOf(make([]kernel.Real, 5))}
	for _, c := range []struct {
		name    string
		now     *proxy.Snapshot
		sources []proxy.SourceState
		want    string
	}{
		{"before the first", nil, nil, "not yet synced"},
		{"never worked", &proxy.Snapshot{Report: proxy.Report{Planned: at, Err: errors.New("refused")}, Table: table, Want: state}, nil,
			"3 services, 5 real servers, not yet synced; last sync failed: refused"},
		{"unreadable", &proxy.Snapshot{Report: proxy.Report{Err: errors.New("gone")}}, nil, "not yet synced; last sync failed: gone"},
		{"worked once", &proxy.Snapshot{Report: failed, Succeeded: at, Table: table, Want: state}, nil,
			"3 services, 5 real servers, synced 09:31:02; last sync failed: reading the kernel: no buffer space"},
		{"refused", &proxy.Snapshot{Report: proxy.Report{Planned: at}, Succeeded: at},
			[]proxy.SourceState{{Name: "file", Delivered: true, Err: errors.New("/etc/svcproxy/services.toml:3: " + strings.Repeat("ä", 100)), Since: at}},
			"0 services, 0 real servers, synced 09:31:02 (0 ms); file /etc/svcproxy/services.toml:3: " + strings.Repeat("ä", 64) + "... (since 09:31:02)"},
	} {
		if got := statusText(c.now, nil, c.sources, nil); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
	empty := sources.Table{Services: sources.ServicesOf(sources.Service{Namespace: "default", Name: "web", Type: sources.ClusterIP, Ports: []sources.Port{{Port: 80}}})}
	long := &proxy.Running{Cause: proxy.CausePeriod, Start: time.Now().Add(-time.Minute), Done: 300, Of: 7000}
	want := "1 service, 0 real servers, synced 09:31:02 (0 ms); a sync (period) is in progress for 1m0s: 300 of 7000 steps; 1 service without backends: web"
	now := &proxy.Snapshot{
		Report: proxy.Report{Planned: at}, Succeeded: at, Table: empty, Frontends: frontend.List(empty, kernel.Node{}, frontend.Config{}),
	}
	if got := statusText(now, long, nil, nil); got != want {
		t.Errorf("a long sync and a service without backends:\n%s, want\n%s", got, want)
	}
	want = strings.Replace(want, "a sync (period) is in progress for 1m0s: 300 of 7000 steps; ", "", 1) + "; health checks tell nothing: too many open files"
	if got := statusText(now, nil, nil, []string{"health checks tell nothing: too many open files"}); got != want {
		t.Errorf("health checks:\n%s, want\n%s", got, want)
	}
}

func TestSystemdsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := systemdNotifier(&stubLoop{now: synchronised(1, 2)}, slog.New(slog.DiscardHandler))
	if n.watchdog != 30*time.Second {
		t.Errorf("watchdog %v", n.watchdog)
	}
	ended := make(chan struct{})
	go func() {
		n.run(ctx)
		close(ended)
	}()
	for _, prefix := range []string{"READY=1\nSTATUS=1 service, 2 real servers, synced ", "STOPPING=1"} {
		buffer := make([]byte, 1000)
		socket.SetReadDeadline(time.Now().Add(10 * time.Second))
		length, err := socket.Read(buffer)
		if err != nil || !strings.HasPrefix(string(buffer[:length]), prefix) {
			t.Fatalf("%q, %v; want %q...", buffer[:length], err, prefix)
		}
		cancel()
	}
	<-ended
}

// READY is not delayed by the pause after an earlier update.
func TestReadyIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &stubLoop{}
		n, h := notify(t, l, 0)
		n.update()
		h.take()
		time.Sleep(time.Millisecond)
		l.set(func(l *stubLoop) { l.now = synchronised(1, 1) })
		n.update()
		if said := h.take(); !strings.HasPrefix(said, "READY=1 ") {
			t.Errorf("after the first sync systemd was told %q", said)
		}
	})
}
