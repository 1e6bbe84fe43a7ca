package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/apiserver"
	"github.com/svcproxy/svcproxy/sources/file"
	"github.com/svcproxy/svcproxy/sources/manifest"
)

// checkCommand validates the configuration and service files.
type checkCommand struct {
	local
	probe    bool
	unserved bool // a firewall keeps clients from a VIP, or a program listens where a service asks to be served
	lacks    bool // this host lacks a file that the configuration names
}

// Check is the command check.
func Check(e *Env) cli.Command {
	c := &checkCommand{local: local{Env: e}}
	return cli.Command{
		Name: "check", Args: "[FILE...]", Short: "validate the configuration and service files",
		Long: `FILEs are service files, or .yaml and .json files of Kubernetes objects; - is standard input.
Without FILE it checks the files that the configuration names, and the kubeconfig. It needs no
root, but only root sees a firewall that keeps clients from a VIP. Problems of this node are
warnings. So is a missing file, such as the kubeconfig or a CA, because the configuration may
be for another node.
--probe also sends one probe to each endpoint that has a health check.`,
		Examples: []string{"svcproxy check", "svcproxy check new-services.toml", "svcproxy check --probe"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "with --probe: an answer is not good"},
			{Code: cli.Config, When: "a file is not valid"},
			{Code: cli.Permission, When: "a file may not be read"},
			{Code: cli.Degraded, When: "a firewall keeps clients from a VIP, a program has its port, or a file is missing"},
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

// checked is the answer of check in JSON. Fields are only ever added.
type checked struct {
	Services int      `json:"services"` // in all files together; 0 if one is not valid
	Problems []string `json:"problems"` // "file:line: ...", where that is known
	Warnings []string `json:"warnings"`
	Probed   *int     `json:"probed,omitempty"` // with --probe: how many probes were sent
}

func (c *checkCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.BoolVar(&c.probe, "probe", false, "probe each endpoint as its health check says")
}

func (c *checkCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	c.collects = c.output == "json"
	s, table, err := c.services(ctx, args)
	n := table.Services.Len()
	var probed *int
	if err == nil && c.probe {
		probed = new(int)
		*probed, err = c.probeAll(ctx, s, table)
	}
	switch {
	case c.output == "json":
		printed := c.encode(checked{n, cli.Lines(err), append([]string{}, c.warned...), probed})
		switch {
		case err != nil:
			return &cli.Error{Code: cli.Code(err)}
		case printed != nil:
			return printed
		}
		return c.verdict()
	case err != nil:
		return err
	}
	text := "ok: " + sources.Count(n, "service")
	if probed != nil {
		text += ", " + sources.Count(*probed, "good probe")
	}
	if _, err = fmt.Fprintln(c.Out, text); err != nil {
		return err
	}
	return c.verdict()
}

// verdict is the error for valid files: nil, or one with the exit code cli.Degraded.
func (c *checkCommand) verdict() error {
	if c.unserved || c.lacks {
		return &cli.Error{Code: cli.Degraded}
	}
	return nil
}

// services validates the files and returns their services.
func (c *checkCommand) services(ctx context.Context, args []string) (daemon.Setup, sources.Table, error) {
	s, err := c.load()
	if err != nil {
		return s, sources.Table{}, err
	}
	if err := s.Supported(); err != nil {
		return s, sources.Table{}, err
	}
	if err := config.Emptied(s.Setup); err != nil {
		return s, sources.Table{}, &cli.Error{Code: cli.Config, Err: err}
	}
	s = s.AsLastRun()
	here, err := host.ReadNode(s.Config.Names())
	c.warn(nodeWarning(err, os.Geteuid() == 0)...)
	facts := c.listening(s.Facts(here), here)
	tables, err := c.read(ctx, s, facts, args)
	if err != nil {
		return s, sources.Table{}, err
	}
	_, left := sources.Merge(sources.HostFacts{}, tables...)
	if len(left) > 0 {
		return s, sources.Table{}, &sources.RejectedError{Problems: left}
	}
	// What the mode has room for.
	table, _ := sources.Merge(sources.HostFacts{Mode: facts.Mode, Scheduler: facts.Scheduler}, tables...)
	c.unserved = new(sources.Merger).Merge(facts, nil, tables...).Awaits
	c.warn(s.ModeDoubts(table, here)...)
	if len(args) == 0 {
		c.warnOfFiles(s, table)
	}
	c.warn(s.ProgramDoubts(table, len(args) > 0)...)
	c.warnOfFirewall(ctx, s, here, table)
	return s, table, nil
}

// read reads all sources, in the daemon's order: the configuration's own services, service files, standard input, and
// Kubernetes objects, which the daemon has from an API server.
func (c *checkCommand) read(ctx context.Context, s daemon.Setup, facts sources.HostFacts, args []string) (
	[]sources.Table, error) {
	o := s.Files()
	if len(args) > 0 {
		o.Paths, o.Optional = slices.DeleteFunc(slices.Clone(args), func(name string) bool {
			return name == stdin || isObjects(name)
		}), false
		o.Literal = true // a shell has replaced its patterns, and passes on those that match nothing
	}
	table, err := c.serviceFiles(ctx, o, facts)
	c.doubts(facts, s.Static)
	var rejected *sources.RejectedError
	if errors.As(err, &rejected) {
		if hint := foreign(rejected.Files); hint != "" {
			err = &cli.Error{Code: cli.Config, Err: err, Hint: hint}
		}
	}
	tables, errs := []sources.Table{s.Static, table}, []error{err}
	if len(args) == 0 {
		errs = append(errs, c.kubeconfig(s))
	}
	if slices.Contains(args, stdin) {
		table, err := c.standardInput(facts)
		tables, errs = append(tables, table), append(errs, err)
	}
	for _, name := range args {
		if isObjects(name) {
			table, err := c.objects(s, facts, name)
			tables, errs = append(tables, table), append(errs, err)
		}
	}
	return tables, errors.Join(errs...)
}

// kubeconfig returns what is wrong with the kubeconfig, which a daemon would wait for. It sends no request.
// That it, or a file that it names, is not on this host says nothing about the configuration, which may be
// for another one.
func (c *checkCommand) kubeconfig(s daemon.Setup) error {
	o := s.APIServer()
	if !s.Config.APIServer.Enabled || o.Kubeconfig == "" {
		return nil
	}
	err := apiserver.Check(o)
	if err == nil {
		return nil
	}
	if apiserver.Missing(err) {
		c.lack(err.Error() + "; if that is a path in kube-proxy's pod, name a file of this host instead: " +
			"svcproxy-migration(7)")
		return nil
	}
	return &sources.RejectedError{Files: []string{o.Kubeconfig}, Problems: []sources.Problem{
		{Message: err.Error(), Denied: errors.Is(err, fs.ErrPermission)},
	}}
}

// lack warns that this host lacks a file that the configuration names.
func (c *checkCommand) lack(line string) {
	c.lacks = true
	c.warn(line)
}

// warnOfFiles warns of files that health checks and notify name, and that are not on this host.
func (c *checkCommand) warnOfFiles(s daemon.Setup, t sources.Table) {
	check := func(what, path string) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			c.lack(fmt.Sprintf("%s: there is no %s on this host", what, path))
		}
	}
	if argv := s.Config.Notify.Exec; len(argv) > 0 {
		check("notify.exec", argv[0])
	}
	for i := range t.Services.Len() {
		of := t.Services.At(i)
		if of.HealthCheck == nil {
			continue
		}
		p := &of.HealthCheck.Probe
		if p.Type == sources.CheckExec {
			check(of.DisplayName()+": health check: its program", p.Command)
		}
		if p.Verify && p.CAFile != "" {
			check(of.DisplayName()+": health check: caFile", p.CAFile)
		}
	}
}

// nodeWarning warns that the node's addresses and routes cannot be read, so that check
// does not compare the services with them. It is nil where nothing can be read, as without
// root in a sandbox.
func nodeWarning(err error, root bool) []string {
	var missing *kernel.MissingError
	if err == nil || !root || errors.As(err, &missing) {
		return nil
	}
	return []string{fmt.Sprintf("cannot read this node's addresses and routes, so the services are not compared with "+
		"them: %v", err)}
}

// isObjects reports whether a file has Kubernetes objects, by its extension.
func isObjects(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// warnOfFirewall warns of other programs' firewall rules that keep clients from VIPs.
func (c *checkCommand) warnOfFirewall(ctx context.Context, s daemon.Setup, here kernel.Node, t sources.Table) {
	if os.Geteuid() != 0 {
		return
	}
	firewall, err := host.Firewall(ctx, s.Config.Names())
	if err != nil {
		return // check works without iptables and without a kernel that has it
	}
	want := s.Want(t, here)
	have := kernel.Observed{State: want, Node: here, Names: s.Config.Names(), Firewall: firewall, Native: s.Native()}
	lines := packet.Blocked(&have, &want, s.Fronts(t, here).Elsewhere())
	c.unserved = c.unserved || len(lines) > 0
	c.warn(lines...)
}

// objects reads a file of Kubernetes objects.
func (c *checkCommand) objects(s daemon.Setup, facts sources.HostFacts, name string) (sources.Table, error) {
	content, err := file.Read(name)
	if err != nil {
		return sources.Table{}, &sources.RejectedError{Files: []string{name},
			Problems: []sources.Problem{{Message: err.Error(), Denied: errors.Is(err, fs.ErrPermission)}}}
	}
	objects, problems := manifest.Decode(name, content.Data)
	objects.Proxy = s.Config.APIServer.ProxyName
	table, left := manifest.Table(objects, s.Node())
	for i := range objects.Services {
		if m := &objects.Services[i].Metadata; !m.Labels.Of(objects.Proxy) {
			c.warn(fmt.Sprintf("%s: Service %s/%s: %s", m.Origin, m.Namespace, m.Name, manifest.NotOf(objects.Proxy)))
		}
	}
	c.doubts(facts, table, content.Problems(objects.Ignored)...)
	if objects.Empty() && len(problems) == 0 {
		problems = []sources.Problem{{Message: name + ": no Service, EndpointSlice or Node in it, so nothing of it is used"}}
	}
	if problems = slices.Concat(problems, left, sources.Validate(table)); len(problems) > 0 {
		return sources.Table{}, &sources.RejectedError{Files: []string{name}, Problems: content.Problems(problems)}
	}
	return table, nil
}
