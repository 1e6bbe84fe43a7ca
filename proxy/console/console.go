// Package console is everything through which others see a running svcproxy and
// ask something of it: the control socket, the healthz and metrics listeners,
// the health check node ports, and what systemd is told.
//
// It joins the packages that answer; what they answer is theirs. It refuses to
// know how the kernel is read.
package console

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/notify"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/sources"
)

// Socket is where the control socket is, below a runtimeDir.
func Socket(runtimeDir string) string { return filepath.Join(runtimeDir, "svcproxy.sock") }

// Console is what its fields are asked for. Fill them in and call Open before
// the proxy runs.
type Console struct {
	Proxy   *proxy.Proxy
	Current *config.Current
	Log     *slog.Logger
	// About is what does not change while svcproxy runs.
	About    status.Daemon
	Counters status.Counter
	Work     func() metrics.Work
	// Files reads the service files again.
	Files Files
	// HealthChecks are what health check node ports answer for a table.
	HealthChecks func(sources.Table, kernel.Node) []web.HealthCheck
	// Warnings say what is not as it should be although all is programmed, one
	// line each. They are asked for after every sync, and said once.
	Warnings func() []string
	// Table is what a source delivered last.
	Table func(source string) control.Table
	// Eligible says whether the node may be given traffic; nil is always.
	Eligible func() bool

	said    atomic.Pointer[[]string] // of Warnings
	notify  *notify.Notifier
	history status.History
	ring    events.Ring
	metrics *metrics.Metrics
	ports   *web.HealthPorts
	healthz *web.Listener
	site    *web.Listener

	hangUp    context.CancelFunc // of the control socket
	answering sync.WaitGroup
}

// Files are the service files: a *file.Source.
type Files interface {
	// Reload reads them again; the error says what was refused.
	Reload(context.Context) error
	// Warnings are about what is served of them.
	Warnings() []string
	// Notices say which files are waited for, and what cannot be watched.
	Notices() []string
}

// Open makes the socket and the listeners, and has the proxy tell of its syncs.
// The socket answers until ctx ends or Close, the listeners until Close.
func (c *Console) Open(ctx context.Context) error {
	about := c.Current.Now().Config
	reader := &status.Reader{Proxy: c.Proxy, History: &c.history, Counters: c.Counters, Daemon: c.daemon, Warnings: c.noted}
	c.metrics = metrics.New(metrics.Options{Version: c.About.Version, Status: reader.Status, Queued: c.Proxy.Queued, Work: c.Work, Log: c.Log})
	c.ports = &web.HealthPorts{Healthy: c.Proxy.Healthy, Log: c.Log}
	c.healthz = &web.Listener{Name: "healthz", Log: c.Log, Handler: web.Health{
		Healthy: c.Proxy.Healthy, Synced: c.synced, Eligible: c.Eligible, Stale: c.stale, Unserved: c.unserved, Degraded: c.Proxy.Degraded, Answered: c.metrics.Answered,
	}.Handler()}
	c.site = &web.Listener{Name: "metrics", Log: c.Log, Handler: web.Site{
		Metrics: c.metrics.Handler(), Mode: func() string { return c.About.Mode },
		Config:    func() any { return c.Current.Now().Config.Configz() },
		Profiling: func() bool { return c.Current.Now().Config.EnableProfiling },
		Status:    reader.Status, Detail: reader.Detail, Events: &c.ring, Allowed: c.allowed(),
	}.Handler()}
	c.notify = notify.Systemd(c.Proxy, c.Log)
	c.listenIn()
	socket, err := control.Listen(Socket(about.RuntimeDir), c.Log)
	if err != nil {
		return err
	}
	server := &control.Server{Status: reader.Status, Detail: reader.Detail, Reload: c.Reload, Table: c.Table, Events: &c.ring, Log: c.Log}
	ctx, c.hangUp = context.WithCancel(ctx)
	c.answering.Go(func() {
		if err := server.Serve(ctx, socket); err != nil {
			c.Log.Error("the control socket does not answer any more", "err", err)
		}
	})
	if err := c.Configure(about); err != nil {
		c.Close()
		return err
	}
	go c.notify.Run(ctx)
	return nil
}

// allowed says which names are this node's.
func (c *Console) allowed() func(name string) bool {
	own := []string{c.About.Node}
	if name, err := os.Hostname(); err == nil {
		own = append(own, name)
	}
	return web.Hosts(own, func() []string { return c.Current.Now().Config.MetricsAllowedHosts })
}

// listenIn has the proxy tell all who remember.
func (c *Console) listenIn() {
	scribe := &events.Scribe{Ring: &c.ring}
	c.Proxy.OnSource = func(state proxy.SourceState) {
		scribe.Source(state)
		c.notify.News()
	}
	c.Proxy.OnSync = func(now *proxy.Snapshot) {
		c.ports.Set(c.HealthChecks(now.Table, now.Node))
		c.history.Synced(now.Report)
		scribe.Synced(now)
		c.metrics.Synced(now)
		c.warn()
		c.notify.News()
	}
}

// warn logs each warning once for as long as it holds.
func (c *Console) warn() {
	before, now := c.warnings(), c.Warnings()
	for _, line := range now {
		if !slices.Contains(before, line) {
			c.Log.Warn(line)
		}
	}
	c.said.Store(&now)
}

// noted are the warnings that were logged and what the files have to say now.
func (c *Console) noted() []string { return slices.Concat(c.warnings(), c.Files.Notices()) }

func (c *Console) warnings() []string {
	if said := c.said.Load(); said != nil {
		return *said
	}
	return nil
}

// Configure has the listeners follow the configuration. An error is only where
// bindAddressHardFail asks for one; those listeners stay where they were.
func (c *Console) Configure(now config.Config) error {
	return errors.Join(
		c.healthz.Listen(now.HealthzBindAddress, now.BindAddressHardFail),
		c.site.Listen(now.MetricsBindAddress, now.BindAddressHardFail))
}

// Listeners are where the healthz and the metrics listener are now; zero where
// one does not listen.
func (c *Console) Listeners() (healthz, metrics netip.AddrPort) {
	return c.healthz.Addr(), c.site.Addr()
}

// Close ends the listeners, the health check node ports and, so that its socket
// is gone before another svcproxy may start, what answers there.
func (c *Console) Close() {
	c.hangUp()
	c.answering.Wait()
	c.healthz.Close()
	c.site.Close()
	c.ports.Close()
}

// Reloaded counts a reading of the main configuration.
func (c *Console) Reloaded(refused error) { c.metrics.Reloaded(refused) }

// Request and Latency count what is asked of an API server, once Open was
// called.
func (c *Console) Request(code, method, host string) { c.metrics.Request(code, method, host) }

// Latency is told how long an answer took.
func (c *Console) Latency(verb, host string, d time.Duration) { c.metrics.Latency(verb, host, d) }

// daemon is About with how the configuration file stands.
func (c *Console) daemon() status.Daemon {
	about, standing := c.About, c.Current.Standing()
	about.Config.File = c.Current.Now().File
	if standing.Refused != nil {
		about.Config.Error, about.Config.Since = standing.Refused.Error(), standing.Since
	}
	for _, k := range standing.Kept {
		about.Config.Restart = append(about.Config.Restart, k.String())
	}
	return about
}

// stale are the refused files of which content of an earlier run is served.
func (c *Console) stale() []string {
	var paths []string
	for _, r := range c.rejected() {
		for _, f := range r.Stale {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// unserved are the refused files of which nothing is served.
func (c *Console) unserved() []string {
	var paths []string
	for _, r := range c.rejected() {
		paths = append(paths, r.Unserved...)
	}
	return paths
}

// rejected is what sources have refused and not got over.
func (c *Console) rejected() []*sources.RejectedError {
	var all []*sources.RejectedError
	for _, s := range c.Proxy.Sources() {
		var r *sources.RejectedError
		if errors.As(s.Err, &r) {
			all = append(all, r)
		}
	}
	return all
}

// synced is when the last sync without an error ended.
func (c *Console) synced() time.Time {
	if s := c.Proxy.Snapshot(); s != nil {
		return s.Succeeded
	}
	return time.Time{}
}
