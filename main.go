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
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/exit"
	"github.com/svcproxy/svcproxy/proxy/rules"
	"github.com/svcproxy/svcproxy/proxy/web"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/static"
)

// version is set by the linker; a build without it has the module's.
var version = ""

// call is one invocation of svcproxy.
type call struct {
	out, err io.Writer
	args     []string // behind the command

	config *config.Flags

	output           string
	state            string
	detailedExitCode bool
	dryRun           bool
	cleanup          bool
	version          bool
}

type command struct {
	name, args, short string
	flags             func(*call, *pflag.FlagSet)
	run               func(context.Context, *call) error
}

// commands: nouns look, verbs change. The first is the default.
var commands = []command{
	{name: "run", short: "serve until told to stop; the kernel goes on serving after that", flags: runFlags, run: runDaemon},
	{name: "check", args: "[FILE...]", short: "validate the configuration and service files, without root or kernel", run: runCheck},
	{name: "plan", short: "print what a sync would change, and change nothing", flags: planFlags, run: runPlan},
	{name: "cleanup", short: "remove everything of ours from the kernel", flags: cleanupFlags, run: runCleanup},
	{name: "version", short: "print the version", run: runVersion},
}

func runFlags(c *call, fs *pflag.FlagSet) {
	fs.BoolVar(&c.cleanup, "cleanup", false, "do what the command cleanup does, and exit")
	fs.BoolVar(&c.version, "version", false, "print the version and exit")
}

func planFlags(c *call, fs *pflag.FlagSet) {
	fs.StringVarP(&c.output, "output", "o", "text", "`FORMAT` of the plan: text or json")
	fs.StringVar(&c.state, "state", "", "read the kernel's state from `FILE` instead; needs no root")
	fs.BoolVar(&c.detailedExitCode, "detailed-exitcode", false, "exit with 10 when there is something to do")
}

func cleanupFlags(c *call, fs *pflag.FlagSet) {
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
}

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute runs a command line and gives the exit code. It is the one place that
// speaks to a person about failure.
func execute(argv []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cmd := commands[0]
	if len(argv) > 0 && (len(argv[0]) == 0 || argv[0][0] != '-') {
		found := false
		for _, cmd = range commands {
			if found = cmd.name == argv[0]; found {
				break
			}
		}
		if !found {
			return exit.Tell(errs, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("unknown command %q", argv[0]), Hint: "svcproxy --help lists the commands"})
		}
		argv = argv[1:]
	}
	c := &call{out: out, err: errs}
	flags := pflag.NewFlagSet(cmd.name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	c.config = config.AddFlags(flags)
	if cmd.flags != nil {
		cmd.flags(c, flags)
	}
	switch err := flags.Parse(argv); {
	case errors.Is(err, pflag.ErrHelp):
		help(out, cmd, flags)
		return exit.OK
	case err != nil:
		return exit.Tell(errs, &exit.Error{Code: exit.Usage, Err: err, Hint: fmt.Sprintf("svcproxy %s --help lists the flags", cmd.name)})
	}
	c.args = flags.Args()
	if len(c.args) > 0 && cmd.args == "" {
		return exit.Tell(errs, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("%s takes no arguments, have %q", cmd.name, c.args)})
	}
	return exit.Tell(errs, cmd.run(ctx, c))
}

func help(w io.Writer, cmd command, flags *pflag.FlagSet) {
	fmt.Fprintf(w, "svcproxy %s %s\n\n%s\n", cmd.name, cmd.args, cmd.short)
	if cmd.name == commands[0].name {
		fmt.Fprint(w, "\nCommands:\n")
		for _, c := range commands {
			fmt.Fprintf(w, "  %-18s %s\n", c.name+" "+c.args, c.short)
		}
	}
	fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsages())
}

// setup is what every command knows of the configuration.
type setup struct {
	config.Loaded
	node   string
	static sources.Table

	ipv6         bool   // the host has it
	conntrackMax uint32 // 0 leaves the kernel's value alone
}

// load reads the configuration, warnings said and the static services decoded.
func (c *call) load() (setup, error) {
	loaded, err := config.Load(c.config)
	for _, w := range loaded.Warnings {
		fmt.Fprintf(c.err, "svcproxy: warning: %s\n", w.Error())
	}
	if err != nil {
		return setup{}, err
	}
	s := setup{Loaded: loaded, ipv6: host.HasIPv6(), conntrackMax: loaded.Config.Conntrack.Max(runtime.NumCPU())}
	hostname, err := os.Hostname()
	if err != nil {
		return setup{}, fmt.Errorf("asking for the host's name: %w", err)
	}
	s.node = loaded.Config.NodeName(hostname)
	table, warnings, problems := static.Decode(loaded.File, loaded.Data)
	moreWarnings, moreProblems := sources.Validate(table, s.facts(kernel.Node{}))
	c.warn(append(warnings, moreWarnings...))
	if problems = append(problems, moreProblems...); len(problems) > 0 {
		return setup{}, &sources.RejectedError{Files: []string{loaded.File}, Problems: problems}
	}
	s.static = table
	return s, nil
}

func (c *call) warn(problems []sources.Problem) {
	for _, p := range problems {
		fmt.Fprintf(c.err, "svcproxy: warning: %s\n", p.Error())
	}
}

// facts are what validation may know of the node.
func (s setup) facts(n kernel.Node) sources.HostFacts {
	f := sources.HostFacts{
		NodeName: s.node, LocalCIDRs: s.Config.Node.LocalCIDRs, Gateways: n.Gateways, Scheduler: s.Config.IPVS.Scheduler,
		Unmasqueraded: len(s.Config.ClusterCIDR) == 0 && !s.Config.IPTables.MasqueradeAll,
	}
	for _, a := range n.Addrs {
		f.Addrs = append(f.Addrs, a.Prefix.Addr())
	}
	return f
}

// want is what the rules make of a table on a node.
func (s setup) want(t sources.Table, n kernel.Node, hold bool, occupied []string) kernel.State {
	if a := s.Config.BindAddress; !a.IsUnspecified() {
		if a.Is4() {
			n.Primary4 = a
		} else {
			n.Primary6 = a
		}
	}
	c := s.Config.Rules()
	c.IPv6, c.Conntrack.Max, c.Hold, c.Occupied = s.ipv6, s.conntrackMax, hold, occupied
	return rules.State(t, n, c)
}

// healthChecks are what health check node ports answer.
func (s setup) healthChecks(t sources.Table, n kernel.Node) []web.HealthCheck {
	c := s.Config.Rules()
	c.IPv6 = s.ipv6
	var checks []web.HealthCheck
	for _, h := range rules.HealthChecks(t, n, c) {
		checks = append(checks, web.HealthCheck(h))
	}
	return checks
}

// files says which files the file source reads.
func (s setup) files(n func() kernel.Node, log *slog.Logger) file.Options {
	f := s.Config.File
	return file.Options{
		Paths: f.Paths, Watch: f.Watch, Debounce: f.Debounce, Resync: s.Config.ConfigSyncPeriod, Log: log,
		Host: func() sources.HostFacts { return s.facts(n()) },
	}
}

// can says whether this version can do what the configuration asks for.
func (s setup) can() error {
	switch m := s.Config.Mode; {
	case m != "" && m != "ipvs":
		return &kernel.MissingError{What: fmt.Sprintf("mode %s is not in this version", m), Hint: `set mode = "ipvs", or leave it out`}
	case s.Config.APIServer.Enabled:
		return &kernel.MissingError{What: "the API server source is not in this version", Hint: "set sources.apiserver.enabled = false, and write services.toml"}
	}
	return nil
}

// open opens the kernel, after everything that can be known without it.
func (s *setup) open(ctx context.Context, names kernel.Names) (*host.Kernel, error) {
	k, err := host.Open(ctx, host.Options{
		Names: names, NodeName: s.node, Zone: s.Config.Node.Zone,
		StateDir: s.Config.StateDir, Sysctls: rules.SysctlNames,
	})
	if err == nil && !k.CanWrite(rules.ConntrackMax) {
		s.conntrackMax = 0 // it belongs to the first network namespace
	}
	return k, err
}

func runDaemon(ctx context.Context, c *call) error {
	// From the start: one that nobody listens for ends the process.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	switch {
	case c.config.WriteTo != "":
		return config.Write(c.config.WriteTo, config.Default())
	case c.version:
		return runVersion(ctx, c)
	case c.cleanup:
		return runCleanup(ctx, c)
	}
	s, err := c.load()
	if err != nil {
		return err
	}
	if err := s.can(); err != nil {
		return err
	}
	level := new(slog.LevelVar)
	log := s.logger(c.err, level)
	lock, err := host.AcquireLock(s.Config.RuntimeDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := s.sameNames(); err != nil {
		return err
	}
	k, err := s.open(ctx, s.Config.Names())
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Scheduler(s.Config.IPVS.Scheduler); err != nil {
		return err
	}
	return s.serve(ctx, k, log, level, signals)
}

// serve runs the loop over the configured sources.
func (s setup) serve(ctx context.Context, k *host.Kernel, log *slog.Logger, level *slog.LevelVar, signals <-chan os.Signal) error {
	var node atomic.Pointer[kernel.Node]
	first, err := k.Node()
	if err != nil {
		return err
	}
	node.Store(&first)
	files, err := file.New(s.files(func() kernel.Node { return *node.Load() }, log))
	if err != nil {
		return err
	}
	p := &proxy.Proxy{
		Kernel: k, Log: log,
		Feeds: []proxy.Feed{{Name: "static", Source: static.Source{Table: s.static}}, {Name: "file", Source: files}},
		Rules: func(t sources.Table, n kernel.Node, hold bool, occupied []string) kernel.State {
			node.Store(&n)
			return s.want(t, n, hold, occupied)
		},
		SyncPeriod: s.Config.IPVS.SyncPeriod, MinSyncPeriod: s.Config.IPVS.MinSyncPeriod,
		OnSync: warnOnce(log, k.Warning),
	}
	ports := &web.HealthPorts{Healthy: p.Healthy, Log: log}
	defer ports.Close()
	p.Served = func(now *proxy.Snapshot) { ports.Set(s.healthChecks(now.Table, now.Node)) }
	if err := host.KeepNames(s.Config.StateDir, s.Config.Names()); err != nil {
		log.Warn("the next run will not know under which names objects were made", "err", err)
	}
	log.Info("starting", "version", buildVersion(), "node", s.node, "config", s.File, "iptables", k.Tools())
	go s.onSignals(ctx, signals, p, files, log, level)
	go watchNode(ctx, k, p, log)
	if err = p.Run(ctx); err == nil {
		log.Info("stopped; the kernel goes on serving")
	}
	return err
}

// watchNode asks for a full check when the node's addresses have changed. Where
// it cannot, the sync period finds them.
func watchNode(ctx context.Context, k *host.Kernel, p *proxy.Proxy, log *slog.Logger) {
	changes, err := k.Subscribe()
	if err == nil {
		err = changes.Watch(ctx, func() { p.Check(proxy.CauseNode) })
	}
	if err != nil {
		log.Warn("changes of the node's addresses are noticed at full checks only", "err", err)
	}
}

// warnOnce says a warning again only when it is another one.
func warnOnce(log *slog.Logger, warning func() error) func(proxy.Report) {
	last := ""
	return func(proxy.Report) {
		text := ""
		if err := warning(); err != nil {
			text = err.Error()
		}
		if text != last && text != "" {
			log.Warn("cleanup may not find it later", "err", text)
		}
		last = text
	}
}

// onSignals answers those that do not end the process.
func (s setup) onSignals(ctx context.Context, signals <-chan os.Signal, p *proxy.Proxy, files *file.Source, log *slog.Logger, level *slog.LevelVar) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP:
				if err := files.Reload(ctx); err != nil {
					log.Error("reload refused; what was good goes on", "err", err)
				}
				p.Check(proxy.CauseAsked)
			case syscall.SIGUSR1:
				p.DumpState()
			case syscall.SIGUSR2:
				toggleDebug(level)
			}
		}
	}
}

func toggleDebug(level *slog.LevelVar) {
	if level.Level() == slog.LevelDebug {
		level.Set(slog.LevelInfo)
	} else {
		level.Set(slog.LevelDebug)
	}
}

func (s setup) logger(w io.Writer, level *slog.LevelVar) *slog.Logger {
	if s.Config.Logging.Verbosity >= 4 {
		level.Set(slog.LevelDebug)
	}
	options := &slog.HandlerOptions{Level: level}
	if s.Config.Logging.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// sameNames refuses to start under other names than the last run's: its objects
// would stay for ever.
func (s setup) sameNames() error {
	last, ok, err := host.LastNames(s.Config.StateDir)
	if err != nil || !ok || last == s.Config.Names() {
		return err
	}
	return &exit.Error{
		Code: exit.Config,
		Err: fmt.Errorf("namePrefix and deviceName are %s and %s, but the last run's objects have %s and %s",
			s.Config.Names().Prefix, s.Config.Names().Device, last.Prefix, last.Device),
		Hint: "svcproxy cleanup removes the last run's objects; then start again",
	}
}

func runCheck(ctx context.Context, c *call) error {
	s, err := c.load()
	if err != nil {
		return err
	}
	o := s.files(func() kernel.Node { return kernel.Node{} }, nil)
	if len(c.args) > 0 {
		o.Paths = c.args
	}
	table, err := c.read(ctx, s, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "ok: %d services\n", len(table.Services))
	return nil
}

// read reads all sources once; anything refused or left out is an error.
func (c *call) read(ctx context.Context, s setup, o file.Options) (sources.Table, error) {
	table, warnings, problems, err := file.Load(ctx, o)
	if err != nil {
		return sources.Table{}, err
	}
	c.warn(warnings)
	merged, left := sources.Merge(s.static, table)
	if problems = append(problems, left...); len(problems) > 0 {
		return sources.Table{}, &sources.RejectedError{Problems: problems}
	}
	return merged, nil
}

func runPlan(ctx context.Context, c *call) error {
	if c.output != "text" && c.output != "json" {
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("output %q: want text or json", c.output)}
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
	table, err := c.read(ctx, s, s.files(func() kernel.Node { return have.Node }, nil))
	if err != nil {
		return err
	}
	p := kernel.Diff(s.want(table, have.Node, false, nil), have)
	if err := c.print(p); err != nil {
		return err
	}
	if c.detailedExitCode && !p.Empty() {
		return &exit.Error{Code: exit.Changes}
	}
	return nil
}

// observe reads the kernel, or the text of one.
func (c *call) observe(ctx context.Context, s *setup) (kernel.Observed, error) {
	if c.state == "" {
		k, err := s.open(ctx, s.Config.Names())
		if err != nil {
			return kernel.Observed{}, err
		}
		defer k.Close()
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
	have.KeepOurs()
	if have.Node.Name == "" {
		have.Node.Name = s.node
	}
	return have, nil
}

func (c *call) print(p kernel.Plan) error {
	if c.output != "json" {
		_, err := io.WriteString(c.out, p.String())
		return err
	}
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	return e.Encode(p)
}

// cleanupRounds is how often cleanup tries what failed; a rule that another
// program has just added may stand in the way of a set once.
const cleanupRounds = 3

func runCleanup(ctx context.Context, c *call) error {
	s, err := c.load()
	if err != nil {
		return err
	}
	if !c.dryRun {
		lock, err := host.AcquireLock(s.Config.RuntimeDir)
		if errors.Is(err, host.ErrRunning) {
			return &exit.Error{Code: exit.Failed, Err: err, Hint: "stop it first: systemctl stop svcproxy"}
		}
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	names := s.Config.Names()
	if last, ok, err := host.LastNames(s.Config.StateDir); err != nil {
		return err
	} else if ok {
		names = last
	}
	k, err := s.open(ctx, names)
	if err != nil {
		return err
	}
	defer k.Close()
	if err := c.clean(ctx, k); err != nil || c.dryRun {
		return err
	}
	return host.ForgetNames(s.Config.StateDir)
}

// clean removes what is ours until a reading shows nothing of it.
func (c *call) clean(ctx context.Context, k proxy.Kernel) error {
	var failed error
	for round := 0; ; round++ {
		have, err := k.Read(ctx)
		if err != nil {
			return err
		}
		p := kernel.Diff(kernel.State{}, have)
		if round == 0 {
			if err := c.print(p); err != nil {
				return err
			}
		}
		switch {
		case p.Empty() || c.dryRun:
			return nil
		case round < cleanupRounds:
			failed = k.Apply(ctx, p)
		case failed != nil:
			return failed
		default:
			return fmt.Errorf("%d objects come back as often as they are removed, the first is %s", len(p.Ops), p.Ops[0].Object)
		}
	}
}

func runVersion(_ context.Context, c *call) error {
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
