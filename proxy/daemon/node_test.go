package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
)

// node is a running svcproxy whose kernel is a fake, with its services in
// svcproxy.toml.
type node struct {
	*testing.T
	dir     string
	kernel  *fake.Kernel
	console *console
	client  control.Client
	stuck   sync.Mutex // a sync waits while it is held
	refuse  func(kernel.Op) error
}

const mainFile = `runtimeDir = "DIR"
stateDir = "DIR/state"
healthzBindAddress = ""
metricsBindAddress = ""
ipvs.syncPeriod = "500ms"
`

const web1 = `[services.web]
clusterIP = "10.96.0.1"
ports = [ { port = 80 } ]
endpoints = [ "10.2.0.1" ]
`

func (n *node) write(text string) {
	n.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, "svcproxy.toml"), []byte(strings.ReplaceAll(text, "DIR", n.dir)), 0o644); err != nil {
		n.Fatal(err)
	}
}

// files are service files without a problem.
type files struct{}

func (files) Reload(context.Context) error { return nil }

func (files) ReloadFile(context.Context, string) error { return nil }
func (files) Warnings() []string                       { return nil }
func (files) Notices() []string                        { return nil }

// counters are the counters of a kernel without traffic.
type counters struct{ kernel *fake.Kernel }

func (c counters) Read(context.Context) (kernel.Counters, error) {
	var all kernel.Counters
	state := c.kernel.State()
	for _, v := range state.Virtuals {
		all.Virtuals = append(all.Virtuals, kernel.VirtualCounters{Key: v.Key})
	}
	for _, r := range state.Reals.All() {
		all.Reals = append(all.Reals, kernel.RealCounters{Key: r.Key, Weight: r.Weight})
	}
	return all, nil
}

func start(t *testing.T) *node {
	return startAs(t, status.Daemon{Mode: "ipvs"})
}

// startAs is start with what is known of the mode.
func startAs(t *testing.T, about status.Daemon) *node {
	n := &node{T: t, dir: t.TempDir()}
	n.write(mainFile + web1)
	return run(t, n.dir, about)
}

// restart starts a process with the files in dir.
func restart(t *testing.T, dir string) *node { return run(t, dir, status.Daemon{Mode: "ipvs"}) }

func run(t *testing.T, dir string, about status.Daemon) *node {
	about.Version, about.Node = "1.2.3", "n1"
	n := &node{T: t, dir: dir}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := config.AddFlags(flags)
	if err := flags.Parse([]string{"--config", filepath.Join(n.dir, "svcproxy.toml")}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	cur, err := config.Start(config.Options{
		Flags: f, Log: log,
		Changed: func(_, now *config.Setup) { n.console.proxy.Check(proxy.CauseConfig) },
		Read:    func(refused error) { n.console.metrics.Reloaded(refused) },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.kernel = fake.New(kernel.DefaultNames, kernel.Node{Name: "n1"}, kernel.State{})
	n.refuse = func(kernel.Op) error { return nil }
	n.kernel.Fail = func(o kernel.Op) error { return n.refuse(o) }
	var p *proxy.Proxy
	checks, err := checker.New(checker.Options{
		StateDir: filepath.Join(n.dir, "state"), Settings: Setup{Setup: *cur.Now()}.Health(), Log: log, Wake: func() { p.Replan() },
	})
	if err != nil {
		t.Fatal(err)
	}
	p = proxy.New(proxy.Options{
		Kernel: n.kernel, Log: log, Health: checks, Feeds: []proxy.Feed{{Name: "static", Source: cur.Source()}},
		SyncPeriod: cur.Now().Config.IPVS.SyncPeriod,
		Rules: func(t sources.Merged, at kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
			n.stuck.Lock()
			defer n.stuck.Unlock()
			c := cur.Now().Config.ForMode()
			c.Hold, c.Occupied = t.Keeps, occupied
			f := frontend.List(t.Table, at, c.Frontends)
			return f, ipvs.State(f, c)
		},
	})
	n.console = newConsole(consoleOptions{
		conditions: &condition.Board{},
		proxy:      p, current: cur, log: log, about: about, counters: counters{n.kernel},
		checker: checks, drained: openNodeDrain(n.dir), work: func() metrics.Work { return metrics.Work{} }, files: files{}, warnings: func() []string { return []string{"a warning"} },
	})
	n.client = control.Client{Socket: Socket(n.dir)}
	ctx, cancel := context.WithCancel(context.Background())
	if err := n.console.open(ctx); err != nil {
		t.Fatal(err)
	}
	// Any free ports: a file cannot ask for these.
	c := cur.Now().Config
	c.HealthzBindAddress, c.MetricsBindAddress = netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:0")
	if err := n.console.configure(c); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	var checking sync.WaitGroup
	checking.Go(func() { checks.Run(ctx) })
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		n.console.close()
		checking.Wait() // it writes in the test's folder until then
	})
	if _, err := p.Await(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// get returns the code and the body of an answer.
func (n *node) get(at netip.AddrPort, path string) (int, string) {
	n.Helper()
	r, err := http.Get(fmt.Sprintf("http://%s%s", at, path))
	if err != nil {
		n.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		n.Fatal(err)
	}
	return r.StatusCode, string(body)
}
