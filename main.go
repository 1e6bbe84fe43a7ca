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
	"io/fs"
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
	"github.com/svcproxy/svcproxy/proxy/rules"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/static"
)

// The exit codes, documented in README.md.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitConfig     = 3
	exitMissing    = 4
	exitPermission = 5
	exitChanges    = 10 // plan --detailed-exitcode
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
			return fail(errs, &failure{code: exitUsage, err: fmt.Errorf("unknown command %q", argv[0]), hint: "svcproxy --help lists the commands"})
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
		return exitOK
	case err != nil:
		return fail(errs, &failure{code: exitUsage, err: err, hint: fmt.Sprintf("svcproxy %s --help lists the flags", cmd.name)})
	}
	c.args = flags.Args()
	if len(c.args) > 0 && cmd.args == "" {
		return fail(errs, &failure{code: exitUsage, err: fmt.Errorf("%s takes no arguments, have %q", cmd.name, c.args)})
	}
	return fail(errs, cmd.run(ctx, c))
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

// failure is an error with the exit code and the next step it calls for. One
// without an error is an answer, told by the exit code alone.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return fmt.Sprintf("exit %d: %v", f.code, f.err) }
func (f *failure) Unwrap() error { return f.err }

// fail prints an error as a person wants it: a line each, and what to do.
func fail(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	f := &failure{code: exitFailed, err: err}
	if !errors.As(err, &f) {
		f.code = codeOf(err)
	}
	if f.err == nil {
		return f.code
	}
	for _, m := range messages(f.err) {
		fmt.Fprintf(w, "svcproxy: %s\n", m.text)
		if m.hint != "" {
			fmt.Fprintf(w, "hint: %s\n", m.hint)
		}
	}
	if f.code == exitPermission {
		f.hint = "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW"
	}
	if f.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", f.hint)
	}
	return f.code
}

// codeOf is the exit code for an error that does not bring its own.
func codeOf(err error) int {
	var invalid *config.Error
	var rejected *sources.RejectedError
	var missing *kernel.MissingError
	switch {
	case errors.As(err, &invalid), errors.As(err, &rejected):
		return exitConfig
	case errors.Is(err, fs.ErrPermission):
		return exitPermission
	case errors.As(err, &missing):
		return exitMissing
	}
	return exitFailed
}

// message is one thing to say to a person.
type message struct{ text, hint string }

// messages takes an error of many parts apart.
func messages(err error) []message {
	var all []message
	switch e := err.(type) {
	case *config.Error:
		for _, p := range e.Problems {
			all = append(all, message{text: p.Error()})
		}
	case *sources.RejectedError:
		for _, p := range e.Problems {
			all = append(all, message{text: p.Error()})
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			all = append(all, messages(part)...)
		}
	case interface{ Unwrap() error }:
		// What wraps many parts says less than they do.
		if all = messages(e.Unwrap()); len(all) == 1 {
			all[0].text = err.Error()
		}
	}
	if all == nil {
		m := message{text: err.Error()}
		if missing, ok := err.(*kernel.MissingError); ok {
			m.hint = missing.Hint
		}
		return []message{m}
	}
	return all
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

func (s setup) names() kernel.Names {
	return kernel.Names{Prefix: s.Config.IPVS.NamePrefix, Device: s.Config.IPVS.DeviceName}
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

// rules are the configuration in the words of rules.State.
func (s setup) rules(hold bool, occupied []string) rules.Config {
	c := s.Config
	return rules.Config{
		Names: s.names(), IPv6: s.ipv6,
		Scheduler: c.IPVS.Scheduler, MasqueradeAll: c.IPTables.MasqueradeAll, MasqueradeBit: uint8(c.IPTables.MasqueradeBit),
		DetectLocal: rules.DetectLocal(c.DetectLocalMode), ClusterCIDRs: c.ClusterCIDR,
		BridgeInterface: c.BridgeInterface, InterfaceNamePrefix: c.InterfaceNamePrefix,
		NodePortAddresses: c.NodePortAddresses.CIDRs, NodePortPrimary: c.NodePortAddresses.Primary,
		LocalCIDRs: c.Node.LocalCIDRs, LocalFallback: rules.LocalFallback(c.IPVS.LocalFallback),
		StrictARP: c.IPVS.StrictARP, VIPPing: c.IPVS.VIPPing,
		Conntrack: rules.Conntrack{
			Max: s.conntrackMax, TCPEstablished: c.Conntrack.TCPEstablishedTimeout,
			TCPCloseWait: c.Conntrack.TCPCloseWaitTimeout, TCPBeLiberal: c.Conntrack.TCPBeLiberal,
			UDP: c.Conntrack.UDPTimeout, UDPStream: c.Conntrack.UDPStreamTimeout,
		},
		DrainTimeout: c.IPVS.DrainTimeout, DeleteUnknown: c.IPVS.DeleteUnknown, ExcludeCIDRs: c.IPVS.ExcludeCIDRs,
		Hold: hold, Occupied: occupied,
	}
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
	return rules.State(t, n, s.rules(hold, occupied))
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
	k, err := s.open(ctx, s.names())
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Scheduler(s.Config.IPVS.Scheduler); err != nil {
		return err
	}
	return s.serve(ctx, k, log, level)
}

// serve runs the loop over the configured sources.
func (s setup) serve(ctx context.Context, k *host.Kernel, log *slog.Logger, level *slog.LevelVar) error {
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
	if err := host.KeepNames(s.Config.StateDir, s.names()); err != nil {
		log.Warn("the next run will not know under which names objects were made", "err", err)
	}
	log.Info("starting", "version", buildVersion(), "node", s.node, "config", s.File, "iptables", k.Tools())
	go s.onSignals(ctx, p, files, log, level)
	err = p.Run(ctx)
	log.Info("stopped; the kernel goes on serving")
	return err
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
func (s setup) onSignals(ctx context.Context, p *proxy.Proxy, files *file.Source, log *slog.Logger, level *slog.LevelVar) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
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
				p.Check()
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
	if err != nil || !ok || last == s.names() {
		return err
	}
	return &failure{
		code: exitConfig,
		err: fmt.Errorf("namePrefix and deviceName are %s and %s, but the last run's objects have %s and %s",
			s.names().Prefix, s.names().Device, last.Prefix, last.Device),
		hint: "svcproxy cleanup removes the last run's objects; then start again",
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
		return &failure{code: exitUsage, err: fmt.Errorf("output %q: want text or json", c.output)}
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
		return &failure{code: exitChanges}
	}
	return nil
}

// observe reads the kernel, or the text of one.
func (c *call) observe(ctx context.Context, s *setup) (kernel.Observed, error) {
	if c.state == "" {
		k, err := s.open(ctx, s.names())
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
	have.Names, s.ipv6 = s.names(), true
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
	lock, err := host.AcquireLock(s.Config.RuntimeDir)
	if errors.Is(err, host.ErrRunning) {
		return &failure{code: exitFailed, err: err, hint: "stop it first: systemctl stop svcproxy"}
	}
	if err != nil {
		return err
	}
	defer lock.Release()
	names := s.names()
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
	for round := 1; ; round++ {
		have, err := k.Read(ctx)
		if err != nil {
			return err
		}
		p := kernel.Diff(kernel.State{}, have)
		if round == 1 {
			if err := c.print(p); err != nil {
				return err
			}
		}
		if c.dryRun {
			return nil
		}
		if p.Empty() {
			return host.ForgetNames(s.Config.StateDir)
		}
		if err := k.Apply(ctx, p); err != nil && round == cleanupRounds {
			return err
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
