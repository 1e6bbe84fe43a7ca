package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/fake"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/frontend"
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

// files are service files with which all is well.
type files struct{}

func (files) Reload(context.Context) error { return nil }
func (files) Warnings() []string           { return nil }
func (files) Notices() []string            { return nil }

// counters are those of a kernel that counts no traffic.
type counters struct{ kernel *fake.Kernel }

func (c counters) Read(context.Context) (kernel.Counters, error) {
	var all kernel.Counters
	state := c.kernel.State()
	for _, v := range state.Virtuals {
		all.Virtuals = append(all.Virtuals, kernel.VirtualCounters{Key: v.Key})
	}
	for _, r := range state.Reals {
		all.Reals = append(all.Reals, kernel.RealCounters{Key: r.Key, Weight: r.Weight})
	}
	return all, nil
}

func start(t *testing.T) *node {
	n := &node{T: t, dir: t.TempDir()}
	n.write(mainFile + web1)
	return restart(t, n.dir)
}

// restart is a process that begins with what is in dir.
func restart(t *testing.T, dir string) *node {
	n := &node{T: t, dir: dir}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f := config.AddFlags(flags)
	if err := flags.Parse([]string{"--config", filepath.Join(n.dir, "svcproxy.toml")}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	cur, err := config.Start(config.Options{
		Flags: f, Log: log,
		Facts:   func(config.Config) sources.HostFacts { return sources.HostFacts{} },
		Changed: func(_, now *config.Setup) { n.console.proxy.Check(proxy.CauseConfig) },
		Read:    func(refused error) { n.console.metrics.Reloaded(refused) },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.kernel = fake.New(kernel.DefaultNames, kernel.Node{Name: "n1"}, kernel.State{})
	n.refuse = func(kernel.Op) error { return nil }
	n.kernel.Fail = func(o kernel.Op) error { return n.refuse(o) }
	p := &proxy.Proxy{
		Kernel: n.kernel, Log: log, Feeds: []proxy.Feed{{Name: "static", Source: cur.Source()}},
		SyncPeriod: cur.Now().Config.IPVS.SyncPeriod,
		Rules: func(t sources.Table, at kernel.Node, hold bool, occupied []string) (*frontend.Frontends, kernel.State) {
			n.stuck.Lock()
			defer n.stuck.Unlock()
			c := cur.Now().Config.ForMode()
			c.Hold, c.Occupied = hold, occupied
			f := frontend.List(t, at, c.Frontends)
			return f, ipvs.State(f, c)
		},
	}
	n.console = newConsole(consoleOptions{
		proxy: p, current: cur, log: log, about: status.Daemon{Version: "1.2.3", Node: "n1", Mode: "ipvs"}, counters: counters{n.kernel},
		work: func() metrics.Work { return metrics.Work{} }, files: files{}, warnings: func() []string { return []string{"a warning"} },
	})
	n.client = control.Client{Socket: Socket(n.dir)}
	ctx, cancel := context.WithCancel(context.Background())
	if err := n.console.open(ctx); err != nil {
		t.Fatal(err)
	}
	// Ports that are free, which a file cannot ask for.
	c := cur.Now().Config
	c.HealthzBindAddress, c.MetricsBindAddress = netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:0")
	if err := n.console.configure(c); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		n.console.close()
	})
	if _, err := p.Await(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// get gives the code and the body of an answer.
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

// Everything that looks sees the same svcproxy.
func TestTheSameEverywhere(t *testing.T) {
	n := start(t)
	st, err := n.client.Status(t.Context(), true)
	if err != nil || len(st.Services) != 1 || st.Services[0].State != status.Serving || !st.Healthy || st.Daemon.Version != "1.2.3" {
		t.Errorf("%+v, %v", st, err)
	}
	if len(st.Warnings) != 1 || st.Warnings[0] != "a warning" {
		t.Error(st.Warnings)
	}
	healthz, site := n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK {
		t.Error(code, body)
	}
	for path, want := range map[string]string{
		"/proxyMode": "ipvs", "/metrics": `svcproxy_build_info{goversion=`, "/healthz": "ok",
		"/configz": `"SyncPeriod":"500ms"`,
	} {
		if code, body := n.get(site, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, no %q in %.200s", path, code, want, body)
		}
	}
	if code, _ := n.get(site, "/debug/pprof/"); code != http.StatusNotFound {
		t.Error("profiles without enableProfiling:", code)
	}
	_, text := n.get(site, "/configz")
	var configz map[string]map[string]any
	if err := json.Unmarshal([]byte(text), &configz); err != nil || configz["kubeproxy.config.k8s.io"]["BindAddress"] != "0.0.0.0" || configz["svcproxy"]["bindAddress"] != "0.0.0.0" {
		t.Error(text, err)
	}
	var kinds []events.Kind
	err = n.client.Events(t.Context(), 0, false, func(e events.Event) error {
		kinds = append(kinds, e.Kind)
		return nil
	})
	if err != nil || len(kinds) == 0 || kinds[0] != events.Started {
		t.Error(kinds, err)
	}
}

// A reload returns when what it read is served, and says what was refused.
func TestReload(t *testing.T) {
	n := start(t)
	n.write(mainFile + strings.Replace(web1, "10.2.0.1", "10.2.0.2", 1) + "[logging]\nverbosity = 4\n")
	if done, err := n.client.Reload(t.Context(), true); err != nil || done.Err() != nil {
		t.Error(done, err)
	}
	if !strings.Contains(n.kernel.State().String(), "10.2.0.2:80") {
		t.Errorf("reloaded, and not served:\n%s", n.kernel.State())
	}
	n.write("hostnameOverride = \"x\"\n" + mainFile + web1)
	if done, err := n.client.Reload(t.Context(), true); err != nil || len(done.Restart) != 1 || !strings.Contains(done.Restart[0], "hostnameOverride") {
		t.Error(done, err)
	}
	n.write(mainFile + "frob = 1\n" + web1)
	done, err := n.client.Reload(t.Context(), true)
	if err != nil || len(done.Rejected) != 1 || !strings.Contains(done.Rejected[0], `unknown key "ipvs.frob"`) && !strings.Contains(done.Rejected[0], `"frob"`) {
		t.Error(done, err)
	}
	if st, err := n.client.Status(t.Context(), true); err != nil || st.Daemon.Config.Error == "" || len(st.Services) != 1 {
		t.Error(st, err)
	}
	_, site := n.console.listeners()
	if _, text := n.get(site, "/metrics"); !strings.Contains(text, `svcproxy_config_reloads_total{result="refused"} 1`) {
		t.Error("a refused reload is not counted")
	}
}

// A reload says what is not served as it was written: what the kernel refuses, and
// what another program has; and it has the warnings.
func TestReloadIsHonest(t *testing.T) {
	n := start(t)
	foreign := kernel.Virtual{Key: kernel.VirtualKey{Addr: netip.MustParseAddrPort("10.96.0.9:80"), Proto: kernel.TCP}, Scheduler: "sed", Netmask: 32}
	if err := n.kernel.Apply(t.Context(), kernel.Plan{Ops: []kernel.Op{{Verb: kernel.Add, Object: foreign}}}); err != nil {
		t.Fatal(err)
	}
	n.write(mainFile + web1 + strings.NewReplacer("web", "other", "10.96.0.1", "10.96.0.9").Replace(web1))
	done, err := n.client.Reload(t.Context(), true)
	if err != nil || len(done.Conflicts) != 1 || !strings.Contains(done.Conflicts[0], "10.96.0.9:80") || cli.Code(done.Err()) != cli.Degraded {
		t.Errorf("a conflict: %+v, %v", done, err)
	}
	if len(done.Warnings) != 1 || done.Warnings[0] != "a warning" {
		t.Errorf("warnings %q", done.Warnings)
	}
	var refuse atomic.Bool
	n.refuse = func(o kernel.Op) error {
		if refuse.Load() && o.Object.Kind() == kernel.KindReal {
			return syscall.EPERM
		}
		return nil
	}
	refuse.Store(true)
	n.write(mainFile + strings.Replace(web1, "10.2.0.1", "10.2.0.7", 1))
	done, err = n.client.Reload(t.Context(), true)
	if err != nil || len(done.Failed) == 0 || !strings.Contains(done.Failed[0], "10.2.0.7:80") || cli.Code(done.Err()) != cli.Failed {
		t.Errorf("a sync that fails: %+v, %v", done, err)
	}
	refuse.Store(false)
	if done, err = n.client.Reload(t.Context(), true); err != nil || done.Err() != nil {
		t.Errorf("when it does not fail any more: %+v, %v", done, err)
	}
}

// A service without backends is in the body of /healthz, whose code stays 200.
func TestHealthNamesServicesWithoutBackends(t *testing.T) {
	n := start(t)
	healthz, _ := n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || strings.Contains(body, "degraded") {
		t.Errorf("%d: %s", code, body)
	}
	n.write(mainFile + strings.Replace(web1, `[ "10.2.0.1" ]`, "[]", 1))
	if _, err := n.client.Reload(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, `"degraded":["1 service without backends: default/web"]`) {
		t.Errorf("%d: %s", code, body)
	}
}

// A node that started with a broken file serves what was last good, and its
// health says so.
func TestHealthNamesStaleFiles(t *testing.T) {
	n := start(t)
	n.console.current.Keep()
	n.write(mainFile + "frob = 1\n" + web1)
	again := restart(t, n.dir)
	healthz, _ := again.console.listeners()
	if code, body := again.get(healthz, "/healthz"); code != http.StatusOK || !strings.Contains(body, `"stale":["`+filepath.Join(n.dir, "svcproxy.toml")) {
		t.Errorf("%d: %s", code, body)
	}
	healthz, _ = n.console.listeners()
	if code, body := n.get(healthz, "/healthz"); code != http.StatusOK || strings.Contains(body, "stale") {
		t.Errorf("nothing is stale: %d: %s", code, body)
	}
}

// A loop that hangs is not healthy within twice the sync period, and is again
// when it goes on.
func TestHealthOfALoopThatHangs(t *testing.T) {
	n := start(t)
	healthz, _ := n.console.listeners()
	await := func(want int, limit time.Duration) {
		t.Helper()
		for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
			code, body := n.get(healthz, "/healthz")
			if code == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d after %v: %s", code, limit, body)
			}
		}
	}
	n.stuck.Lock()
	await(http.StatusServiceUnavailable, 10*time.Second)
	n.stuck.Unlock()
	await(http.StatusOK, 10*time.Second)
}

// Under bindAddressHardFail an address that is taken is an error.
func TestAnAddressThatIsTaken(t *testing.T) {
	n := start(t)
	healthz, _ := n.console.listeners()
	c := n.console.current.Now().Config
	c.HealthzBindAddress = netip.MustParseAddrPort("127.0.0.1:0") // as before
	c.MetricsBindAddress, c.BindAddressHardFail = healthz, true
	if err := n.console.configure(c); err == nil || !strings.Contains(err.Error(), "metrics") {
		t.Error(err)
	}
	if _, now := n.console.listeners(); !now.IsValid() || now == healthz {
		t.Error("the listener did not stay:", now)
	}
}
