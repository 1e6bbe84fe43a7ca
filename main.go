// Command svcproxy makes this node's kernel serve a table of services: see
// README.md.
//
// This file wires the packages together and holds the command table; it is the
// only one that knows all of them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/packaging/docs"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/command"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/console"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/exit"
	"github.com/svcproxy/svcproxy/proxy/logging"
	"github.com/svcproxy/svcproxy/proxy/memory"
	"github.com/svcproxy/svcproxy/proxy/metrics"
	"github.com/svcproxy/svcproxy/proxy/remote"
	"github.com/svcproxy/svcproxy/proxy/rules"
	"github.com/svcproxy/svcproxy/proxy/status"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/lastgood"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// version is set by the linker; a build without it has the module's.
var version = ""

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute runs a command line and gives the exit code. It is the one place that
// speaks to a person about failure.
func execute(argv []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c := &call{out: out, err: errs}
	return exit.Tell(errs, c.program().Run(ctx, argv, out))
}

// call is one invocation of svcproxy.
type call struct {
	out, err io.Writer
	config   *config.Flags

	output           string
	state            string
	detailedExitCode bool
	dryRun           bool
	leftovers        bool
	cleanup          bool
	version          bool

	warned []string // so far
}

func (c *call) program() command.Program {
	asking := &remote.Remote{Socket: c.socket, In: os.Stdin, Out: os.Stdout, Err: c.err}
	return command.Program{
		Name:  "svcproxy",
		Flags: func(fs *pflag.FlagSet) { c.config = config.AddFlags(fs) },
		Commands: slices.Concat([]command.Command{
			{Name: "run", Short: "serve until told to stop; the kernel goes on serving after that", Flags: c.runFlags, Run: c.run},
			{Name: "check", Args: "[FILE...]", Short: "validate the configuration and service files, without root or kernel", Flags: c.formFlags, Run: c.check},
			{Name: "plan", Short: "print what a sync would change, and change nothing", Flags: c.planFlags, Run: c.plan},
		}, asking.Commands(), []command.Command{
			{Name: "cleanup", Short: "remove everything of ours from the kernel", Flags: c.cleanupFlags, Run: c.clean},
			{Name: "version", Short: "print the version", Flags: c.formFlags, Run: c.printVersion},
		}, docs.Commands(c.out, buildVersion(), c.program)),
	}
}

// socket is the running daemon's. A configuration that is refused says where all
// the same: the daemon runs on under the last good one.
func (c *call) socket() string {
	loaded, _ := config.Read(c.config)
	return console.Socket(loaded.Config.RuntimeDir)
}

func (c *call) runFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.cleanup, "cleanup", false, "do what the command cleanup does, and exit")
	fs.BoolVar(&c.version, "version", false, "print the version and exit")
}

func (c *call) formFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.output, "output", "o", "text", "`FORMAT`: text or json")
}

func (c *call) planFlags(fs *pflag.FlagSet) {
	c.formFlags(fs)
	fs.StringVar(&c.state, "state", "", "read the kernel's state from `FILE` instead; needs no root")
	fs.BoolVar(&c.detailedExitCode, "detailed-exitcode", false, "exit with 10 when there is something to do")
}

func (c *call) cleanupFlags(fs *pflag.FlagSet) {
	c.formFlags(fs)
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	fs.BoolVar(&c.leftovers, "leftovers", false, "also remove the virtual servers that kube-proxy left and no service wanted")
}

// setup is a configuration together with what it comes to on this machine.
type setup struct {
	config.Setup
	machine
	object rules.NodeObject // what an API server says of this node
	tables *host.Tables     // those that root has opened for the user it becomes, else nil
}

// machine is what a configuration does not say and the rules depend on.
type machine struct {
	hostname string
	ipv6     bool // the host has it
	// What of the connection tracker's table can be written: it belongs to the
	// first network namespace.
	ownsConntrackMax, ownsConntrackBuckets bool
}

func thisMachine() (machine, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return machine{}, fmt.Errorf("asking for the host's name: %w", err)
	}
	return machine{hostname: hostname, ipv6: host.HasIPv6(), ownsConntrackMax: true, ownsConntrackBuckets: true}, nil
}

// load reads the configuration for a command that a person looks at.
func (c *call) load() (setup, error) {
	m, err := thisMachine()
	if err != nil {
		return setup{}, err
	}
	s, err := config.Load(c.config, func(f config.Config) sources.HostFacts { return facts(f, m, kernel.Node{}) })
	c.warn(s.Warnings)
	return setup{Setup: s, machine: m}, err
}

func (c *call) warn(lines []string) {
	c.warned = append(c.warned, lines...)
	if c.output == "json" {
		return // they are part of the answer
	}
	for _, line := range lines {
		fmt.Fprintf(c.err, "svcproxy: warning: %s\n", line)
	}
}

// inForm refuses an output other than text and JSON. The flags of run have none.
func (c *call) inForm() error {
	if c.output != "text" && c.output != "json" && c.output != "" {
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("output %q: want text or json", c.output)}
	}
	return nil
}

func (c *call) encode(v any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// facts are what validation may know of the node.
func facts(c config.Config, m machine, n kernel.Node) sources.HostFacts {
	f := sources.HostFacts{
		NodeName: c.NodeName(m.hostname), LocalCIDRs: c.Node.LocalCIDRs, Gateways: n.Gateways, Scheduler: c.IPVS.Scheduler,
		Unmasqueraded: len(c.ClusterCIDR) == 0 && !c.IPTables.MasqueradeAll,
	}
	for _, a := range n.Addrs {
		f.Addrs = append(f.Addrs, a.Prefix.Addr())
	}
	return f
}

func (s setup) facts(n kernel.Node) sources.HostFacts {
	f := facts(s.Config, s.machine, n)
	f.LocalCIDRs = slices.Concat(f.LocalCIDRs, s.object.PodCIDRs)
	return f
}

func (s setup) node() string { return s.Config.NodeName(s.hostname) }

// rules is the configuration in the words of the rules, on this machine.
func (s setup) rules() rules.Config {
	c := s.Config.Rules()
	c.IPv6, c.Object = s.ipv6, s.object
	if s.ownsConntrackMax {
		c.Conntrack.Max = s.Config.Conntrack.Max(runtime.NumCPU())
	}
	if s.ownsConntrackBuckets {
		c.Conntrack.Buckets = rules.Buckets(c.Conntrack.Max)
	}
	return c
}

// want is what the rules make of a table on a node.
func (s setup) want(t sources.Table, n kernel.Node) kernel.State {
	return rules.State(t, s.placed(n), s.rules())
}

// placed is the node where the configuration says that it is.
func (s setup) placed(n kernel.Node) kernel.Node {
	n.Zone = s.Config.Node.Zone
	return n
}

// healthChecks are what health check node ports answer.
func (s setup) healthChecks(t sources.Table, n kernel.Node) []web.HealthCheck {
	var checks []web.HealthCheck
	for _, h := range rules.HealthChecks(t, s.placed(n), s.rules()) {
		checks = append(checks, web.HealthCheck(h))
	}
	return checks
}

// files says which files the file source reads.
func (s setup) files() file.Options {
	f := s.Config.File
	return file.Options{Optional: s.Config.APIServer.Enabled, Paths: f.Paths, Watch: f.Watch, Debounce: f.Debounce, Resync: s.Config.ConfigSyncPeriod}
}

// keptServices is where the last good content of service files is.
func (s setup) keptServices() string {
	return filepath.Join(config.LastGood(s.Config.StateDir).Dir, "services")
}

// apiServer says how to reach the API server.
func (s setup) apiServer() apiserver.Options {
	c := s.Config.ClientConnection
	return apiserver.Options{
		Kubeconfig: c.Kubeconfig, Master: c.Master, ContentType: c.ContentType, AcceptContentTypes: c.AcceptContentTypes,
		QPS: c.QPS, Burst: c.Burst, Resync: s.Config.ConfigSyncPeriod, EmptyGrace: s.Config.APIServer.EmptyGrace,
		NodeName: s.node(), UserAgent: "svcproxy/" + buildVersion(),
	}
}

// can says whether this version can do what the configuration asks for.
func (s setup) can() error {
	switch m := s.Config.Mode; {
	case m != "" && m != "ipvs":
		return &kernel.MissingError{What: fmt.Sprintf("mode %s is not in this version", m), Hint: `set mode = "ipvs", or leave it out`}
	case s.Config.APIServer.Enabled && !apiserver.Built:
		return &kernel.MissingError{What: "this svcproxy was built without the API server source", Hint: "set sources.apiserver.enabled = false, or install the full build"}
	}
	return nil
}

// open opens the kernel, after everything that can be known without it.
func (s *setup) open(ctx context.Context, names kernel.Names) (*host.Kernel, error) {
	k, err := host.Open(ctx, host.Options{
		Names: names, NodeName: s.node(), Zone: s.Config.Node.Zone,
		StateDir: s.Config.StateDir, Sysctls: rules.SysctlNames, Tables: s.tables,
	})
	if err == nil {
		s.ownsConntrackMax, s.ownsConntrackBuckets = k.CanWrite(rules.ConntrackMax), k.CanWrite(rules.ConntrackBuckets)
	}
	return k, err
}

func (c *call) run(ctx context.Context, args []string) error {
	// From the start: one that nobody listens for ends the process.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	switch {
	case c.config.WriteTo != "":
		return config.Write(c.config.WriteTo, config.Default())
	case c.version:
		return c.printVersion(ctx, args)
	case c.cleanup:
		return c.clean(ctx, args)
	}
	return c.serve(ctx, signals)
}

// serve is run, once the command line asks for nothing else.
func (c *call) serve(ctx context.Context, signals <-chan os.Signal) error {
	host.SmallPages() // or what is given back after the start would not stay so
	d := &daemon{log: logging.New(c.err), collect: memory.PutOff(memory.Start)}
	var err error
	if d.machine, err = thisMachine(); err != nil {
		return err
	}
	d.current, err = config.Start(config.Options{
		Flags: c.config, Log: d.log.Logger, Fits: d.fits, Changed: d.changed, Read: d.read,
		Facts: func(f config.Config) sources.HostFacts { return facts(f, d.machine, kernel.Node{}) },
	})
	if err != nil {
		return err
	}
	s := d.now()
	d.log.Set(s.Config.Logging.Format, s.Config.Logging.Verbosity)
	d.current.Announce()
	if err := s.can(); err != nil {
		return err
	}
	if err := d.sameNames(s); err != nil {
		return err
	}
	if d.kernel, err = s.open(ctx, s.Config.Names()); err != nil {
		return err
	}
	defer d.kernel.Close()
	lock, err := host.AcquireLock()
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := s.ownsDevice(d.kernel, s.Config.Names()); err != nil {
		return err
	}
	d.machine = s.machine
	if err := host.Scheduler(s.Config.IPVS.Scheduler); err != nil {
		return err
	}
	return d.run(ctx, signals)
}

// sameNames refuses to start under other names than the last run's: its objects
// would stay for ever. A record that cannot be read is said, and replaced.
func (d *daemon) sameNames(s setup) error {
	last, ok, err := host.LastNames(s.Config.StateDir)
	if err != nil {
		d.log.Warn("if the last run had other names, its objects stay", "err", err)
	}
	if !ok || last == s.Config.Names() {
		return nil
	}
	return &exit.Error{
		Code: exit.Config,
		Err: fmt.Errorf("namePrefix and deviceName are %s and %s, but the last run's objects have %s and %s",
			s.Config.Names().Prefix, s.Config.Names().Device, last.Prefix, last.Device),
		Hint: "svcproxy cleanup removes the last run's objects; then start again",
	}
}

// ownsDevice refuses a device of our name that nothing says is ours: what is bound
// to it would be removed.
func (s setup) ownsDevice(k *host.Kernel, names kernel.Names) error {
	if last, ok, _ := host.LastNames(s.Config.StateDir); ok && last == names {
		return nil
	}
	strange, err := k.Strange()
	if err != nil || len(strange) == 0 {
		return err
	}
	return &exit.Error{
		Code: exit.Config,
		Err: fmt.Errorf("device %s has %d addresses, the first %s, and nothing says that svcproxy or kube-proxy made it: they would be removed",
			names.Device, len(strange), strange[0].Addr),
		Hint: fmt.Sprintf("choose another ipvs.deviceName, or remove the device: ip link del %s", names.Device),
	}
}

// daemon is a running svcproxy: its parts, joined.
type daemon struct {
	log     *logging.Log
	collect func() // garbage, from now on
	machine machine
	current *config.Current
	kernel  *host.Kernel
	proxy   *proxy.Proxy
	files   *file.Source
	cache   rules.Cache                   // of the loop's goroutine
	bridged []string                      // likewise: warnings about endpoints on bridges, as of the last check
	object  atomic.Pointer[manifest.Node] // the API server's of this node, nil without one
	console *console.Console
}

// now is the setup that holds.
func (d *daemon) now() setup {
	s := setup{Setup: *d.current.Now(), machine: d.machine}
	if object := d.object.Load(); object != nil {
		s.object = objectOf(object)
	}
	return s
}

func objectOf(n *manifest.Node) rules.NodeObject {
	return rules.NodeObject{Zone: n.Zone, Addresses: n.Addresses, PodCIDRs: n.PodCIDRs}
}

// table is what a source delivered last, for a plan.
func (d *daemon) table(source string) control.Table {
	t, delivered := d.proxy.Table(source)
	answer := control.Table{Version: buildVersion(), Delivered: delivered, Services: t.Services}
	if object := d.object.Load(); object != nil {
		node := control.TableNode(objectOf(object))
		answer.Node = &node
	}
	return answer
}

// eligible says whether load balancers may send new connections to the node.
func (d *daemon) eligible() bool {
	object := d.object.Load()
	return object == nil || object.Eligible()
}

// run runs the loop over the configured sources.
func (d *daemon) run(ctx context.Context, signals <-chan os.Signal) error {
	s := d.now()
	d.console = new(console.Console)
	feeds, err := d.feeds(s)
	if err != nil {
		return err
	}
	served := lastgood.NewRecorder(s.Config.StateDir, d.log.Logger)
	defer served.Close()
	d.proxy = &proxy.Proxy{
		Before: d.before(s.Config.StateDir), Served: served.Record,
		Kernel: d.kernel, Prober: host.Prober{}, Log: d.log.Logger, Rules: d.rules, Feeds: feeds,
		SyncPeriod: s.Config.IPVS.SyncPeriod, MinSyncPeriod: s.Config.IPVS.MinSyncPeriod,
	}
	counters, err := host.OpenCounters(nil)
	if err != nil {
		return err
	}
	defer counters.Close()
	*d.console = console.Console{
		Proxy: d.proxy, Current: d.current, Log: d.log.Logger, About: d.about(),
		Counters: counters, Work: d.work, Warnings: d.warnings, Files: d.files,
		HealthChecks: func(t sources.Table, n kernel.Node) []web.HealthCheck { return d.now().healthChecks(t, n) },
		Table:        d.table, Eligible: d.eligible,
	}
	d.settle(s.Config)
	if err := d.console.Open(ctx); err != nil {
		return err
	}
	defer d.console.Close()
	d.proxy.Remember = d.kernel.Remember
	if err := host.KeepNames(s.Config.StateDir, s.Config.Names()); err != nil {
		d.log.Warn("the next run will not know under which names objects were made", "err", err)
	}
	d.current.Keep()
	d.log.Info("starting", "version", buildVersion(), "node", s.node(), "config", s.File, "iptables", d.kernel.Tools())
	go d.onSignals(ctx, signals)
	go d.current.Follow(ctx)
	go d.watchNode(ctx)
	go memory.Tend(ctx, d.proxy, d.collect)
	if err = d.proxy.Run(ctx); err == nil {
		d.log.Info("stopped; the kernel goes on serving")
	}
	return err
}

// before is what the last run served.
func (d *daemon) before(stateDir string) sources.Incumbents {
	before, err := lastgood.Incumbents(stateDir)
	if err != nil {
		d.log.Warn("a new service may take what another had in the last run", "err", err)
	}
	return before
}

// settle has the process follow the configuration.
func (d *daemon) settle(c config.Config) {
	d.log.Set(c.Logging.Format, c.Logging.Verbosity)
	if err := host.SetOOMScoreAdj(c.OOMScoreAdj); err != nil {
		d.log.Warn("this process may be ended when memory is short", "err", err)
	}
}

// changed has all parts follow it while they run; the loop asks for rules anew.
func (d *daemon) changed(_, now *config.Setup) {
	c := now.Config
	d.settle(c)
	d.proxy.SetPeriods(c.IPVS.SyncPeriod, c.IPVS.MinSyncPeriod)
	if err := d.console.Configure(c); err != nil {
		d.log.Error("a listener stays where it was", "err", err)
	}
	d.proxy.Check(proxy.CauseConfig)
}

// about is what does not change while svcproxy runs.
func (d *daemon) about() status.Daemon {
	s := d.now()
	about := status.Daemon{
		Version: buildVersion(), Node: s.node(), PID: os.Getpid(), Started: time.Now(), IPTables: d.kernel.Tools(), Mode: "ipvs",
	}
	if s.Config.Mode == "" {
		about.ModeReason = "the best this kernel can do"
	}
	return about
}

// warnings are what was not written down that should outlast this process.
func (d *daemon) warnings() []string {
	// A walk through all endpoints, on nodes with such bridges: not for each change.
	if s := d.proxy.Snapshot(); s != nil && s.Report.Checked {
		d.bridged = rules.Bridged(s.Table, s.Node, d.now().rules())
	}
	if err := d.kernel.Warning(); err != nil {
		return append([]string{fmt.Sprintf("cleanup may not find it later: %v", err)}, d.bridged...)
	}
	return d.bridged
}

// work is what the kernel was asked for, in the words of metrics.
func (d *daemon) work() metrics.Work {
	stats := d.kernel.Stats()
	tracked := func(t host.Tracked) metrics.Tracked { return metrics.Tracked(t) }
	w := metrics.Work{
		IPTablesReads: stats.Readers, IPTablesWrites: stats.Writers,
		Tracked: map[kernel.Family]metrics.Tracked{kernel.IPv4: tracked(stats.Tracked4), kernel.IPv6: tracked(stats.Tracked6)},
	}
	for name, n := range stats.Netlink.All() {
		w.Sockets = append(w.Sockets, metrics.Socket{Name: name, Messages: n.Messages, Queries: n.Queries, Syscalls: n.Sends + n.Receives})
	}
	return w
}

// feeds are the sources, in the order in which they win.
func (d *daemon) feeds(s setup) ([]proxy.Feed, error) {
	o := s.files()
	o.Log, o.Host = d.log.Logger, d.facts
	o.Keep = s.keptServices()
	var err error
	if d.files, err = file.New(o); err != nil {
		return nil, err
	}
	feeds := []proxy.Feed{{Name: "static", Source: d.current.Source(), Said: d.current.Standing().Refused}, {Name: "file", Source: d.files}}
	if !s.Config.APIServer.Enabled {
		return feeds, nil
	}
	api := s.apiServer()
	api.OnNode, api.Log, api.Metrics = d.isNode, d.log.Logger, d.console
	source, err := apiserver.New(api)
	return append(feeds, proxy.Feed{Name: "apiserver", Source: source}), err
}

// isNode is told what the API server says of this node.
func (d *daemon) isNode(n manifest.Node) {
	d.object.Store(&n)
	d.log.Info("node", "zone", n.Zone, "podCIDRs", n.PodCIDRs, "leaving", n.Leaving)
	d.proxy.Check(proxy.CauseNode)
}

// facts are what validation may know of the node now: not its addresses and routes, which
// the loop reads itself and heeds as they change.
func (d *daemon) facts() sources.HostFacts { return d.now().facts(kernel.Node{}) }

// rules is what the loop asks for, under the configuration that holds now.
func (d *daemon) rules(t sources.Table, n kernel.Node, hold bool, occupied []string) kernel.State {
	s := d.now()
	c := s.rules()
	c.Hold, c.Occupied = hold, occupied
	return d.cache.State(t, s.placed(n), c)
}

// read is told what became of each reading of the configuration.
func (d *daemon) read(refused error) { d.console.Reloaded(refused) }

// fits refuses a configuration that this kernel cannot do.
func (d *daemon) fits(next config.Config) error {
	if next.IPVS.Scheduler == d.now().Config.IPVS.Scheduler {
		return nil
	}
	return host.Scheduler(next.IPVS.Scheduler)
}

// onSignals answers those that do not end the process.
func (d *daemon) onSignals(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP:
				// What was refused or failed is in the log already, by whoever found it.
				if done, err := d.console.Reload(ctx); err != nil {
					d.log.Error("reload", "err", err)
				} else if done.Err() != nil {
					d.log.Error("reload: not all of it is served", "refused", len(done.Rejected), "failed", len(done.Failed), "conflicts", len(done.Conflicts))
				}
			case syscall.SIGUSR1:
				d.proxy.DumpState()
			case syscall.SIGUSR2:
				d.log.Toggle()
			}
		}
	}
}

// watchNode asks for a full check when the node's addresses have changed. Where
// it cannot, the sync period finds them.
func (d *daemon) watchNode(ctx context.Context) {
	changes, err := d.kernel.Subscribe()
	if err == nil {
		err = changes.Watch(ctx, func() { d.proxy.Check(proxy.CauseNode) })
	}
	if err != nil {
		d.log.Warn("changes of the node's addresses are noticed at full checks only", "err", err)
	}
}

// checked is the answer of check in JSON. Fields are only ever added.
type checked struct {
	Services int      `json:"services"` // in all files together; 0 if something is wrong
	Problems []string `json:"problems"` // "file:line: ...", where that is known
	Warnings []string `json:"warnings"`
}

func (c *call) check(ctx context.Context, args []string) error {
	if err := c.inForm(); err != nil {
		return err
	}
	n, err := c.countServices(ctx, args)
	switch {
	case c.output == "json":
		told := c.encode(checked{n, exit.Lines(err), append([]string{}, c.warned...)})
		if err == nil {
			return told
		}
		return &exit.Error{Code: exit.Code(err)}
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(c.out, "ok: %d services\n", n)
	return err
}

// countServices reads what check is about.
func (c *call) countServices(ctx context.Context, args []string) (int, error) {
	s, err := c.load()
	if err != nil {
		return 0, err
	}
	if err := s.can(); err != nil {
		return 0, err
	}
	here, _ := host.ReadNode(s.Config.Names()) // what it stands in the way of is a warning: without it there are none
	o := s.files()
	o.Host, o.Keep = func() sources.HostFacts { return s.facts(here) }, s.keptServices()
	objects := func(name string) bool { return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) }
	if len(args) > 0 {
		o.Paths, o.Optional = slices.DeleteFunc(slices.Clone(args), objects), false
	}
	table, err := c.read(ctx, o)
	if err == nil {
		var left []sources.Problem
		if table, left = sources.Merge(sources.HostFacts{}, s.Static, table); len(left) > 0 {
			err = &sources.RejectedError{Problems: left}
		}
	}
	for _, name := range args {
		if objects(name) {
			more, refused := c.checkObjects(s, here, name)
			table, err = sources.Table{Services: append(table.Services, more.Services...)}, errors.Join(err, refused)
		}
	}
	if err != nil {
		return 0, err
	}
	c.warnOfFirewall(ctx, s, here, table)
	return len(table.Services), nil
}

// warnOfFirewall says what of the host's firewall keeps clients away from a table's
// VIPs, where it can be read.
func (c *call) warnOfFirewall(ctx context.Context, s setup, here kernel.Node, t sources.Table) {
	if os.Geteuid() != 0 {
		return
	}
	firewall, err := host.Firewall(ctx, s.Config.Names())
	if err != nil {
		return // check works without iptables and without a kernel that has it
	}
	c.warn(kernel.Barred(firewall, s.want(t, here).Virtuals))
}

// checkObjects looks at a file of Kubernetes objects.
func (c *call) checkObjects(s setup, here kernel.Node, name string) (sources.Table, error) {
	data, err := file.Read(name)
	if err != nil {
		return sources.Table{}, &sources.RejectedError{Files: []string{name}, Problems: []sources.Problem{{Message: err.Error()}}}
	}
	objects, problems := manifest.Decode(name, data)
	table, left := manifest.Table(objects, s.node())
	warnings, refused := sources.Validate(table, s.facts(here))
	for _, w := range warnings {
		c.warn([]string{w.Error()})
	}
	if problems = slices.Concat(problems, left, refused); len(problems) > 0 {
		return sources.Table{}, &sources.RejectedError{Files: []string{name}, Problems: problems}
	}
	return table, nil
}

// read reads the service files once; anything refused is an error.
func (c *call) read(ctx context.Context, o file.Options) (sources.Table, error) {
	table, warnings, problems, err := file.Load(ctx, o)
	if err != nil {
		return sources.Table{}, err
	}
	for _, w := range warnings {
		c.warn([]string{w.Error()})
	}
	if len(problems) > 0 {
		return sources.Table{}, &sources.RejectedError{Problems: problems}
	}
	return table, nil
}

func (c *call) plan(ctx context.Context, _ []string) error {
	if err := c.inForm(); err != nil {
		return err
	}
	s, err := c.load()
	if err != nil {
		return err
	}
	if err := s.can(); err != nil {
		return err
	}
	have, err := c.observe(ctx, &s)
	if err != nil {
		return err
	}
	table, err := c.whole(ctx, &s, have.Node)
	if err != nil {
		return err
	}
	var ask proxy.Prober
	if c.state == "" {
		ask = host.Prober{}
	}
	want := s.want(table, have.Node)
	p := proxy.Plan(ctx, ask, want, have)
	for _, line := range kernel.Barred(have.Firewall, want.Virtuals) { // no part of a plan's JSON
		fmt.Fprintf(c.err, "svcproxy: warning: %s\n", line)
	}
	if err := c.print(p); err != nil {
		return err
	}
	if c.detailedExitCode && !p.Empty() {
		return &exit.Error{Code: exit.Changes}
	}
	return nil
}

// whole is the table of all sources, as the daemon would merge them. Without one of
// them there is none: a plan would remove what it has.
func (c *call) whole(ctx context.Context, s *setup, n kernel.Node) (sources.Table, error) {
	tables := []sources.Table{s.Static, {}}
	if s.Config.APIServer.Enabled {
		table, err := c.fromAPIServer(ctx, s)
		if err != nil {
			return sources.Table{}, &exit.Error{
				Code: exit.Failed, Err: fmt.Errorf("what the API server has is not known, so what would be removed is not either: %w", err),
				Hint: "svcproxy status says how the source stands, if svcproxy runs",
			}
		}
		tables = append(tables, table)
	}
	o := s.files()
	o.Host, o.Keep = func() sources.HostFacts { return s.facts(n) }, s.keptServices()
	var err error
	if tables[1], err = c.read(ctx, o); err != nil {
		return sources.Table{}, err
	}
	before, err := lastgood.Incumbents(s.Config.StateDir)
	if err != nil {
		c.warn([]string{err.Error()})
	}
	merger := sources.Merger{Before: before}
	merged, left := merger.Merge(proxy.Facts(n), false, tables...)
	for _, p := range left {
		c.warn([]string{p.Error()})
	}
	return merged, nil
}

// fromAPIServer asks the running daemon what the API server gave it, and where none
// runs the API server itself.
func (c *call) fromAPIServer(ctx context.Context, s *setup) (sources.Table, error) {
	got, err := control.Client{Socket: console.Socket(s.Config.RuntimeDir)}.Table(ctx, "apiserver")
	switch {
	case err != nil && exit.Code(err) == exit.NoDaemon:
		return c.askAPIServer(ctx, s)
	case err != nil:
		return sources.Table{}, err
	case got.Version != buildVersion():
		return sources.Table{}, fmt.Errorf("svcproxy %s is running and this is %s: restart it", got.Version, buildVersion())
	case !got.Delivered:
		return sources.Table{}, errors.New("svcproxy is running and has no services from it yet")
	}
	if got.Node != nil {
		s.object = rules.NodeObject(*got.Node)
	}
	return sources.Table{Services: got.Services}, nil
}

// A plan waits so long for an API server, and so long once something of it cannot be had.
const (
	apiLimit    = 30 * time.Second
	outageLimit = 5 * time.Second
)

func (c *call) askAPIServer(ctx context.Context, s *setup) (table sources.Table, err error) {
	o := s.apiServer()
	o.OnNode = func(n manifest.Node) { s.object = objectOf(&n) }
	api, err := apiserver.New(o)
	if err != nil {
		return sources.Table{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiLimit)
	defer cancel()
	why := error(context.DeadlineExceeded)
	err = api.Watch(ctx, func(t sources.Table, refused error) {
		var rejected *sources.RejectedError
		if refused != nil && !errors.As(refused, &rejected) {
			// Of several kinds one may be out and the table still come.
			if errors.Is(why, context.DeadlineExceeded) {
				time.AfterFunc(outageLimit, cancel)
			}
			why = refused
			return
		}
		table, why = t, nil
		cancel()
	})
	return table, errors.Join(err, why)
}

// observe reads the kernel, or the text of one.
func (c *call) observe(ctx context.Context, s *setup) (kernel.Observed, error) {
	if c.state == "" {
		k, err := s.open(ctx, s.Config.Names())
		if err != nil {
			return kernel.Observed{}, err
		}
		defer k.Close()
		if err := s.ownsDevice(k, s.Config.Names()); err != nil {
			return kernel.Observed{}, err
		}
		return k.Read(ctx)
	}
	text, err := os.ReadFile(c.state)
	if err != nil {
		return kernel.Observed{}, fmt.Errorf("reading the kernel's state: %w", err)
	}
	have, err := kernel.ParseObserved(string(text))
	if err != nil {
		return kernel.Observed{}, fmt.Errorf("%s: %w", c.state, err)
	}
	have.Names, s.ipv6 = s.Config.Names(), true
	plan.KeepOwned(&have)
	if have.Node.Name == "" {
		have.Node.Name = s.node()
	}
	return have, nil
}

func (c *call) print(p kernel.Plan) error {
	if c.output != "json" {
		_, err := io.WriteString(c.out, p.String())
		return err
	}
	return c.encode(p)
}

func (c *call) printVersion(context.Context, []string) error {
	if err := c.inForm(); err != nil {
		return err
	}
	if c.output == "json" {
		return c.encode(map[string]string{"version": buildVersion(), "go": runtime.Version()})
	}
	_, err := fmt.Fprintln(c.out, "svcproxy", buildVersion())
	return err
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}
