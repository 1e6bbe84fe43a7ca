package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/hooks"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Socket is the path of the control socket below a runtimeDir.
func Socket(runtimeDir string) string { return filepath.Join(runtimeDir, "svcproxy.sock") }

// consoleOptions are the parts that the console shows, and what it asks them.
type consoleOptions struct {
	proxy    *proxy.Proxy
	current  *config.Current
	log      *slog.Logger
	about    status.Daemon // does not change while svcproxy runs
	counters status.Counter
	files    serviceFiles
	// badAnswers counts what was no answer of a DNS server; nil in tests.
	badAnswers func() uint64
	// work counts what the kernel was asked for.
	work func() metrics.Work
	// warnings are problems that do not fail a sync, one line each. They are read
	// after every sync, and each is logged once.
	warnings func() []string
	// table is the last table of a source.
	table func(source string) control.Table
	// keeper repeats writes in stateDir that failed; nil in tests.
	keeper *statefile.Keeper
	// conditions are those of this svcproxy; nil in tests.
	conditions *condition.Board
	// checker makes the health checks and keeps the orders; nil is none. It must not run before newConsole.
	checker *checker.Checker
	// tables are those that programs set; nil in tests.
	tables *file.Store
	// drained is the operator's drain of the node; nil in tests.
	drained *nodeDrain
	// announcer writes announce.file; nil in tests.
	announcer *announcer
	// relayed is what mode userspace serves, for the plan of another process; nil in other modes.
	relayed func() string
	// explain says what becomes of a packet; nil in tests.
	explain func(context.Context, explain.Question) (explain.Result, error)
	// kernelText reads the kernel for another process; nil in tests.
	kernelText func(context.Context) (string, error)
	// stateDir is where events are kept; "" in tests: nowhere.
	stateDir string
	// eligible reports whether the node may be given traffic; nil is always.
	eligible func() bool
}

// serviceFiles are the service files: namedFiles.
type serviceFiles interface {
	// Reload reads them again; the error says what was refused.
	Reload(context.Context) error
	// ReloadFile reads one of them again.
	ReloadFile(ctx context.Context, path string) error
	// Warnings are about the content that is served.
	Warnings() []string
	// Notices say which files are waited for.
	Notices() []string
}

// console serves the control socket, the healthz and metrics listeners and the health
// check node ports, and notifies systemd.
type console struct {
	consoleOptions
	logged  atomic.Pointer[[]string] // warnings that hold and were logged
	better  atomic.Pointer[string]   // the preferred mode that recheck has found; nil before
	askers  askers
	notify  *notifier
	history status.Recorder
	past    status.Past
	ring    events.Ring
	kept    events.File
	earlier uint64         // number of the last event of earlier runs
	health  *events.Health // nil without a checker
	reader  *status.Reader
	metrics *metrics.Metrics
	ports   *web.HealthPorts
	healthz *web.Listener
	site    *web.Listener

	stop      context.CancelFunc // ends the control socket and notifications
	answering sync.WaitGroup
	telling   sync.WaitGroup // the last notifications
}

// newConsole makes a console and registers it with the proxy, which must not run yet.
// It listens nowhere until open.
func newConsole(o consoleOptions) *console {
	c := &console{consoleOptions: o, stop: func() {}}
	c.kept = events.File{Path: filepath.Join(o.stateDir, events.FileName), Ring: &c.ring, Keeper: o.keeper}
	if o.stateDir != "" {
		if err := c.kept.Restore(); err != nil {
			o.log.Warn("cannot restore events", "err", err)
		}
	}
	c.earlier = c.ring.Newest()
	c.reader = &status.Reader{
		Proxy: o.proxy, Recorder: &c.history, Counters: o.counters, Daemon: c.daemon, Warnings: c.allWarnings,
		Conditions: o.conditions,
	}
	c.metrics = metrics.New(metrics.Options{
		Version: o.about.Version, Rules: o.about.Mode == mode.IPTables, Status: c.reader.Status,
		Frontends: c.frontends, Queued: o.proxy.Queued, Work: o.work, Late: c.lateness,
		Outcomes: outcomes(), Log: o.log, BadAnswers: o.badAnswers,
	})
	c.ports = &web.HealthPorts{Healthy: o.proxy.Healthy, Eligible: c.inService, Log: o.log}
	c.healthz = &web.Listener{Name: "healthz", Log: o.log, Handler: web.Health{
		Healthy: o.proxy.Healthy, Synced: c.synced, Eligible: c.mayBeChosen, Stale: c.stale, Unserved: c.unserved,
		Degraded: c.degraded, Answered: c.metrics.Answered,
	}.Handler()}
	c.site = &web.Listener{Name: "metrics", Log: o.log, Handler: web.Site{
		Metrics: c.metrics.Handler(), Mode: func() string { return o.about.Mode },
		Config:    func() any { return o.current.Now().Config.Configz() },
		Profiling: func() bool { return o.current.Now().Config.EnableProfiling },
		Status:    c.reader.Status, Detail: c.reader.Detail, Past: &c.past, Events: &c.ring, Allowed: c.allowed(),
	}.Handler()}
	c.notify = systemdNotifier(o.proxy, o.log)
	c.notify.wrong = c.wrong
	if o.checker != nil {
		c.observeHealth()
	}
	c.observe()
	if o.conditions != nil {
		o.conditions.Follow(c.follow)
	}
	return c
}

// open makes the socket and the listeners. The socket answers until ctx ends or close,
// the listeners until close.
func (c *console) open(ctx context.Context) error {
	now := c.current.Now().Config
	socket, err := control.Listen(Socket(now.RuntimeDir), c.log)
	if err != nil {
		return err
	}
	server := &control.Server{
		Status: c.reader.Status, Detail: c.reader.Detail, Reload: c.reload, Table: c.table, Events: &c.ring, Log: c.log,
		Places: c.places, Applied: c.applied, Health: c.reader.Checks, Probes: c.probes, DrainNode: c.drainNode,
		Relayed: c.relayed,
		Explain: c.explain,
	}
	server.Kernel, server.Metrics = c.kernelText, c.metrics.Handler()
	if c.tables != nil {
		server.Tables, server.TableChanged = c.tables, c.tableChanged
		server.MembersSetTables = func() bool { return c.current.Now().Config.Control.Tables }
	}
	if c.checker != nil {
		server.Orders = c.checker
	}
	ctx, stop := context.WithCancel(ctx)
	// Events of the last sync are told, too.
	telling, end := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = func() { stop(); end() }
	c.answering.Go(func() {
		if err := server.Serve(ctx, socket); err != nil {
			c.log.Error("the control socket no longer answers", "err", err)
		}
	})
	if c.stateDir != "" {
		c.answering.Go(func() { c.kept.Run(ctx) })
	}
	if err := c.configure(now); err != nil {
		c.close()
		return err
	}
	go c.notify.run(ctx)
	go c.sample(ctx)
	notifier := hooks.Notifier{Ring: &c.ring, From: c.earlier, Version: c.about.Version, Node: c.about.Node, Log: c.log,
		Config: func() hooks.Config {
			return hooks.Config(c.current.Now().Config.Notify)
		}}
	c.telling.Go(func() { notifier.Run(telling) })
	return nil
}

// sample keeps the traffic of the last minutes for the status page, while there is one.
func (c *console) sample(ctx context.Context) {
	tick := time.NewTicker(status.PastPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !c.current.Now().Config.MetricsBindAddress.IsValid() {
				continue
			}
			if err := c.reader.Sample(ctx, &c.past); err != nil {
				c.log.Debug("cannot read the counters", "err", err)
			}
		}
	}
}

// allowed reports which host names a request to the metrics listener may have.
func (c *console) allowed() func(name string) bool {
	own := []string{c.about.Node}
	if name, err := os.Hostname(); err == nil {
		own = append(own, name)
	}
	return web.Hosts(own, func() []string { return c.current.Now().Config.MetricsAllowedHosts })
}

// observe registers everything that follows the proxy's syncs and sources.
func (c *console) observe() {
	c.proxy.Asker = c.askers.String
	recorder := &events.Recorder{Ring: &c.ring}
	if text := c.about.SteppedDown(); text != "" {
		c.ring.Add(events.Event{Time: c.about.Started, Kind: events.ModeFallback, Text: text})
	}
	c.proxy.OnSource = func(state proxy.SourceState) {
		recorder.Source(state)
		c.notify.update()
	}
	c.proxy.OnSync = func(now *proxy.Snapshot) {
		if now.Frontends != nil {
			c.ports.Set(now.Frontends.HealthChecks())
		}
		c.history.Synced(now.Report)
		c.otherRules(now.Report)
		recorder.Synced(now)
		if c.health != nil {
			v := c.checker.Brief()
			c.health.Synced(v.Table, v.Unusual)
		}
		c.metrics.Synced(now)
		c.announcer.synced(now)
		c.logWarnings()
		c.notify.update()
	}
}

// frontends returns what the last plan serves; nil before the first plan.
func (c *console) frontends() *frontend.Frontends {
	if now := c.proxy.Snapshot(); now != nil {
		return now.Frontends
	}
	return nil
}

// logWarnings logs each warning once for as long as it holds.
func (c *console) logWarnings() {
	before, now := c.loggedWarnings(), c.warnings()
	for _, line := range now {
		if !slices.Contains(before, line) {
			c.log.Warn(line)
		}
	}
	c.logged.Store(&now)
}

func (c *console) loggedWarnings() []string {
	if logged := c.logged.Load(); logged != nil {
		return *logged
	}
	return nil
}

// allWarnings are those of the last sync and those of the service files now.
func (c *console) allWarnings() []string { return slices.Concat(c.loggedWarnings(), c.files.Notices()) }

// configure moves the listeners to the configured addresses. It returns an error only
// under bindAddressHardFail; a listener that cannot move keeps its address.
func (c *console) configure(now config.Config) error {
	return errors.Join(
		c.healthz.Listen(now.HealthzBindAddress, now.BindAddressHardFail),
		c.site.Listen(now.MetricsBindAddress, now.BindAddressHardFail))
}

// close ends the control socket, the listeners and the health check node ports. The socket is gone when it
// returns, so that another svcproxy can start. It waits at most 3.2 s for the last notifications.
func (c *console) close() {
	c.stop()
	c.answering.Wait()
	c.healthz.Close()
	c.site.Close()
	c.ports.Close()
	c.telling.Wait()
}

// daemon is about, with the state of the configuration file.
func (c *console) daemon() status.Daemon {
	about, standing := c.about, c.current.Standing()
	about.Config.File = c.current.Now().File
	if standing.Refused != nil {
		about.Config.Error, about.Config.Since = standing.Refused.Error(), standing.Since
	}
	if found := c.better.Load(); found != nil {
		about.AvailableMode = *found
	}
	if c.drained != nil {
		about.Drain = c.drained.State()
	}
	for _, k := range standing.Kept {
		about.Config.Restart = append(about.Config.Restart, k.String())
	}
	return about
}

// stale lists the refused files whose content of an earlier run is served.
func (c *console) stale() []string {
	var paths []string
	for _, r := range c.rejected() {
		for _, f := range r.Stale {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// unserved lists the refused files of which nothing is served.
func (c *console) unserved() []string {
	var paths []string
	for _, r := range c.rejected() {
		paths = append(paths, r.Unserved...)
	}
	return paths
}

// rejected are the refusals of sources that still hold.
func (c *console) rejected() []*sources.RejectedError {
	var all []*sources.RejectedError
	for _, s := range c.proxy.Sources() {
		var r *sources.RejectedError
		if errors.As(s.Err, &r) {
			all = append(all, r)
		}
	}
	return all
}

// synced is when the last successful sync ended.
func (c *console) synced() time.Time {
	if s := c.proxy.Snapshot(); s != nil {
		return s.Succeeded
	}
	return time.Time{}
}
