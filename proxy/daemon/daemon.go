// Package daemon is the running svcproxy. It makes the sources, the loop and everything
// that shows their state, and joins them. It follows the configuration and signals.
//
// Its import list is the architecture. What each part does is in its own package.
package daemon

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/health/checker"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/dns"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// Options say how to run.
type Options struct {
	Flags   *config.Flags
	Version string
	Log     io.Writer
}

// daemon is a running svcproxy: its parts, joined.
type daemon struct {
	version   string
	log       *dynamicLog
	machine   Machine
	current   *config.Current
	kernel    *host.Kernel
	proxy     *proxy.Proxy
	console   *console
	checker   *checker.Checker
	drained   *nodeDrain
	noTables  bool // their directory could not be made
	announcer *announcer
	starts    announce.Starts               // with this one
	object    atomic.Pointer[manifest.Node] // this node in the API server, nil without one

	conditions condition.Board   // what is wrong for a while
	keeper     *statefile.Keeper // of all files in stateDir

	reading sync.Mutex // while readKernel reads the kernel

	listeners *listeners // of the relay; nil in other modes than userspace
	portals   *portals   // the same

	modeReason string                       // why the mode is used; "" if the configuration names it
	fallbacks  []status.Fallback            // the preferred modes that cannot be used
	preferred  func(context.Context) string // one of them that could be used now, else ""

	mode mode.Mode // set before the loop runs, which alone calls its State

	// Used by the loop's goroutine alone.
	frontends frontend.Cache
	limits    mode.Limits
	doubts    []string // of the mode and about endpoints on bridges, as of the last check of the kernel
}

// Run serves until ctx ends. The kernel goes on serving after that.
func Run(ctx context.Context, o Options) error {
	signals := catchSignals()
	host.SmallPages() // else the memory that is returned after the start would not stay returned
	d := &daemon{version: o.Version, log: newLog(o.Log)}
	d.keeper = &statefile.Keeper{Said: d.unkept}
	resume := deferCollection(startLimit)
	if err := d.configure(o.Flags); err != nil {
		return err
	}
	s := d.setup()
	if err := s.Supported(); err != nil {
		return err
	}
	if err := d.sameNames(s); err != nil {
		return err
	}
	lock, err := host.AcquireLock()
	if err != nil {
		return err
	}
	defer lock.Release()
	d.starts = d.begin(s.Config)
	defer d.stopped(ctx, s.Config)
	s.keeper = d.keeper
	s.lastMode, s.log = d.lastMode(s.Config.StateDir), d.log.Logger
	s.tried = host.LastWasAlike(s.Config.StateDir, d.version)
	s.Writes, s.inherited = true, activation.Files(true)
	// Files are read while the programs below run.
	files, err := d.files(s)
	if err != nil {
		return err
	}
	files.Begin()
	s.loadModules(ctx)
	if d.kernel, err = s.Open(ctx, s.Config.Names()); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it served: a tool that was running has failed
		}
		return err
	}
	defer d.kernel.Close()
	d.mode, d.modeReason, d.fallbacks = s.mode(), s.modeReason(), s.Fallbacks
	store := systemdStore()
	if s.relay != nil {
		d.listeners = newListeners(s.relay, store, d.log.Logger)
		d.portals = d.newPortals(ctx, s)
		defer d.listeners.end()
	} else {
		dropInherited(s.inherited, store, d.log.Logger)
	}
	logMode(d.log.Logger, d.mode.Name(), s.Fallbacks)
	d.preferred = func(ctx context.Context) string { return s.preferred(ctx, s.Config.Names()) }
	if err := s.OwnsDevice(ctx, d.kernel, s.Config.Names()); err != nil {
		return err
	}
	if slices.Contains(d.mode.Needs(), kernel.IPTablesAdapter) {
		if err := d.kernel.HoldConnections(); err != nil {
			d.log.Warn("cannot keep connection tracking on: nft flush ruleset will reset masqueraded connections", "err", err)
		}
	}
	d.machine = s.Machine
	if err := d.hasScheduler(s.Config.IPVS.Scheduler); err != nil {
		return err
	}
	return d.serve(ctx, signals, files, resume)
}

// configure reads the configuration and prepares to follow it.
func (d *daemon) configure(flags *config.Flags) error {
	var err error
	if d.machine, err = thisMachine(); err != nil {
		return err
	}
	d.current, err = config.Start(config.Options{
		Flags: flags, Log: d.log.Logger, Keeper: d.keeper, Unwatched: d.unwatched, Fits: d.fits, Changed: d.changed,
		Read: func(refused error) { d.console.metrics.Reloaded(refused) },
	})
	if err != nil {
		return err
	}
	c := d.current.Now().Config
	d.log.Set(c.Logging.Format, c.Logging.Verbosity)
	d.current.Announce()
	return nil
}

// sameNames refuses to start with other names than the last run's, whose objects would
// stay for ever. If the record of the names cannot be read, that is logged.
func (d *daemon) sameNames(s Setup) error {
	last, ok, err := host.LastNames(s.Config.StateDir)
	if err != nil {
		d.log.Warn("cannot read the names of the last run: objects with other names are not removed", "err", err)
	}
	if !ok || last == s.Config.Names() {
		return nil
	}
	return &cli.Error{
		Code: cli.Config,
		Err: fmt.Errorf("namePrefix and deviceName are %s and %s, but the last run's objects have %s and %s",
			s.Config.Names().Prefix, s.Config.Names().Device, last.Prefix, last.Device),
		Hint: fmt.Sprintf("svcproxy cleanup removes the last run's objects; then start again. If %s is another program's "+
			"device, remove the file names in %s",
			last.Device, s.Config.StateDir),
	}
}

// setup is the configuration in effect, with what the API server says of the node now.
func (d *daemon) setup() Setup {
	s := Setup{Setup: *d.current.Now(), Machine: d.machine, Version: d.version, used: d.mode}
	if d.listeners != nil {
		s.relay = d.listeners.relay
	}
	if object := d.object.Load(); object != nil {
		s.SetNode(*object)
	}
	return s
}

// serve makes the loop, its sources and the console, and runs them.
func (d *daemon) serve(ctx context.Context, signals caughtSignals, files *file.Source, resume func()) error {
	s := d.setup()
	served := file.NewIncumbentsRecorder(s.Config.StateDir, d.keeper)
	defer served.Close()
	named := namedFiles{files, dns.New(s.DNS())}
	feeds, err := d.feeds(s, named)
	if err != nil {
		return err
	}
	counters, err := host.OpenCounters(nil, s.relay, d.kernel)
	if err != nil {
		return err
	}
	defer counters.Close()
	if d.checker, err = d.newChecker(s); err != nil {
		return err
	}
	d.drained = openNodeDrain(s.Config.StateDir)
	d.announcer = &announcer{daemon: d, starts: d.starts}
	period, minPeriod := s.periods()
	d.proxy = proxy.New(proxy.Options{
		Before: d.servedBefore(s.Config.StateDir), Served: served.Record,
		Kernel: d.kernel, Prober: host.Prober{},
		Listeners: new(host.Sockets).Listeners, Conditions: &d.conditions,
		TryLimits: func() error { return d.kernel.TryLimits(mode.LimitsTrial(d.kernel.Names())) },
		Log:       d.log.Logger, Rules: d.rules, Feeds: feeds, Remember: d.kernel.Remember,
		Health: d.checker, Announcer: d.announcer,
		SyncPeriod: period, MinSyncPeriod: minPeriod, Facts: s.Facts(kernel.Node{}),
	})
	d.console = newConsole(d.consoleOptions(named, counters))
	d.listeners.follow(d.proxy)
	d.follow(s.Config)
	if err := d.console.open(ctx); err != nil {
		return err
	}
	defer d.console.close()
	_ = d.keeper.Do("names", func() error { return host.KeepNames(s.Config.StateDir, s.Config.Names()) })
	used := way{d.mode, d.kernel.Native()}
	_ = d.keeper.Do("mode", func() error { return host.KeepMode(s.Config.StateDir, used.String(), d.version) })
	go d.keeper.Run(ctx)
	d.current.Keep()
	d.log.Info("starting", "version", d.version, "node", s.Node(), "config", s.File, "iptables", d.kernel.Tools())
	resolve, end := context.WithCancel(ctx) // a run that fails ends before ctx
	var resolving sync.WaitGroup
	defer resolving.Wait()
	defer end()
	resolving.Go(func() { named.dnsNames.Run(resolve) })
	go d.handle(ctx, signals)
	go d.current.Follow(ctx)
	go d.watchNode(ctx)
	go d.watchLimits(ctx, s.relay, counters)
	go d.watchAnswers(ctx, s.relay)
	go d.watchRules(ctx)
	go d.checker.Run(ctx)
	if len(d.fallbacks) > 0 {
		recheck := time.NewTicker(recheckPeriod)
		defer recheck.Stop()
		go d.console.recheck(ctx, recheck.C, d.preferred)
	}
	go returnMemory(ctx, d.proxy, resume)
	if err = d.proxy.Run(ctx); err == nil {
		d.log.Info(d.farewell())
	}
	return err
}

// unkept says that a file in stateDir, or announce.file, cannot be written, or that it can again.
func (d *daemon) unkept(file string, err error) {
	kind, text := condition.Unkept, ""
	if file == announceFile {
		kind = condition.Unpublished
	}
	if err != nil {
		text = "cannot be written: " + err.Error()
	}
	d.conditions.Set(kind, file, text, "")
}

// farewell says what a stop means in the mode.
func (d *daemon) farewell() string {
	if d.listeners != nil {
		return "stopped; nothing is served until the next start"
	}
	return "stopped; the kernel goes on serving"
}

// servedBefore is what the last run served.
func (d *daemon) servedBefore(stateDir string) sources.Incumbents {
	before, err := file.ReadIncumbents(stateDir)
	if err != nil {
		d.log.Warn("cannot read what the last run served: a new service may take the address of another one", "err", err)
	}
	return before
}

// fits refuses a configuration that this kernel does not support.
func (d *daemon) fits(next config.Config) error {
	if next.IPVS.Scheduler == d.setup().Config.IPVS.Scheduler {
		return nil
	}
	return d.hasScheduler(next.IPVS.Scheduler)
}

// hasScheduler returns an error if the mode is ipvs and the kernel lacks a scheduler.
func (d *daemon) hasScheduler(name string) error {
	if !slices.Contains(d.mode.Needs(), kernel.IPVSAdapter) {
		return nil
	}
	if name == "" { // those of files have wrr
		if err := host.Scheduler("wrr"); err != nil {
			return err
		}
	}
	return host.Scheduler(cmp.Or(name, sources.DefaultScheduler))
}

// changed makes all parts follow a new configuration while they run.
func (d *daemon) changed(_, now *config.Setup) {
	c := now.Config
	d.follow(c)
	s := d.setup()
	d.proxy.SetPeriods(s.periods())
	d.proxy.SetFacts(s.Facts(kernel.Node{}))
	d.checker.Configure(s.Health())
	if err := d.console.configure(c); err != nil {
		d.log.Error("cannot move a listener to its new address", "err", err)
	}
	d.proxy.Check(proxy.CauseConfig)
}

// follow applies the configuration of the process itself.
func (d *daemon) follow(c config.Config) {
	d.log.Set(c.Logging.Format, c.Logging.Verbosity)
	if err := host.SetOOMScoreAdj(c.OOMScoreAdj); err != nil {
		d.log.Warn("cannot set oomScoreAdj: the kernel may end this process when memory is short", "err", err)
	}
}

// rules is what the loop serves and programs, under the configuration in effect.
func (d *daemon) rules(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
	s := d.setup()
	c := s.forMode()
	c.Hold, c.Occupied = t.Keeps, occupied
	f := d.frontends.List(t, s.placed(n), c.Frontends)
	if d.portals != nil {
		c.Portals = d.portals.open(f)
	}
	return f, d.limits.Add(d.mode.State(f, c), f, c.Names)
}
