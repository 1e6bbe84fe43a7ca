package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// cleanupCommand removes everything that svcproxy made.
type cleanupCommand struct {
	local
	dryRun    bool
	leftovers bool
}

// Cleanup is the command cleanup.
func Cleanup(e *Env) cli.Command {
	c := &cleanupCommand{local: local{Env: e}}
	return cli.Command{
		Name: "cleanup", Short: "remove everything that svcproxy made from the kernel",
		Long: `It ends all service on this node. Stop svcproxy first: systemctl stop svcproxy. Objects
of other programs stay, and so do virtual servers in the configuration of a running
keepalived. While kube-proxy serves the node in mode ipvs, nothing is removed, unless
svcproxy had an ipvs.namePrefix and an ipvs.deviceName of its own.`,
		Examples: []string{"svcproxy cleanup --dry-run", "svcproxy cleanup"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "svcproxy runs, kube-proxy in mode ipvs does, or something is left"},
			{Code: cli.Permission, When: "rights are missing"},
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *cleanupCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	fs.BoolVar(&c.leftovers, "leftovers", false, "also remove virtual servers, rules and tables that kube-proxy left")
}

func (c *cleanupCommand) run(ctx context.Context, _ []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	s, err := c.load()
	if err != nil {
		return err
	}
	others, err := lookForOthers()
	if err != nil {
		return err
	}
	// This comes before anything in the state directory is read.
	if s.Tables, err = c.becomeOwner(ctx, s.Config.StateDir, true); err != nil {
		return err
	}
	if !c.dryRun {
		lock, err := lock()
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	return c.clean(ctx, s, others)
}

// others are programs that serve this node, too. They are looked for as root: nobody else may ask which network
// namespace another user's process is in.
type others struct {
	kept      []proxy.Kept // what keepalived has
	kubeProxy error        // nil if none serves in mode ipvs
}

func lookForOthers() (o others, err error) {
	o.kept, err = kept()
	o.kubeProxy = besideKubeProxy()
	return o, err
}

// lock makes sure that no svcproxy runs.
func lock() (*host.Lock, error) {
	lock, err := host.AcquireLock()
	var running *host.RunningError
	if errors.As(err, &running) {
		return nil, &cli.Error{Code: cli.Failed, Err: err, Hint: "stop it first: systemctl stop svcproxy"}
	}
	return lock, err
}

// clean removes what svcproxy made from the kernel, but for what others have.
func (c *cleanupCommand) clean(ctx context.Context, s daemon.Setup, have others) error {
	names := c.lastNames(s)
	if names.Prefix == kernel.DefaultNames.Prefix || names.Device == kernel.DefaultNames.Device || c.leftovers {
		if have.kubeProxy != nil {
			return have.kubeProxy
		}
	}
	s.KubeProxyTables = c.leftovers
	k, err := s.Open(ctx, names)
	if err != nil {
		return err
	}
	defer k.Close()
	if names != s.Config.Names() {
		if err := checkRecord(ctx, k, names, s.Config.StateDir); err != nil {
			return err
		}
	}
	if err := s.OwnsDevice(ctx, k, k.Names()); err != nil {
		return err
	}
	if err := k.Warning(); err != nil {
		c.warn(err.Error())
	}
	var withdrawn error
	if !c.dryRun { // first, and whatever becomes of the rest: routing daemons may still send clients here
		withdrawn = daemon.WithdrawFile(s.Config.Announce)
	}
	done := ""
	if err := proxy.Clean(ctx, k, proxy.Cleaning{Dry: c.dryRun, Leftovers: c.leftovers, Kept: have.kept},
		func(p kernel.Plan) error {
			done = p.Past()
			return c.show(p, k.Text)
		}); err != nil || c.dryRun {
		return errors.Join(withdrawn, err)
	}
	if c.output != "json" {
		fmt.Fprintln(c.Out, done)
	}
	return errors.Join(withdrawn, host.ForgetRecord(s.Config.StateDir), host.ForgetNames(s.Config.StateDir))
}

// show prints the plan as text has it; without --dry-run its summary follows when it was carried out.
func (c *cleanupCommand) show(p kernel.Plan, text func(kernel.Plan) string) error {
	if c.dryRun || c.output == "json" {
		return c.print(p, text(p))
	}
	_, err := io.WriteString(c.Out, strings.TrimSuffix(text(p), p.Summary()+"\n"))
	return err
}

// checkRecord refuses the names of the last run's record if the device has addresses that
// are not svcproxy's. The record can be wrong: the user of the service can write it.
func checkRecord(ctx context.Context, k *host.Kernel, names kernel.Names, stateDir string) error {
	have, err := k.Read(ctx)
	if err != nil {
		return err
	}
	if others := have.Unserved(); len(others) > 0 {
		return &cli.Error{
			Code: cli.Failed,
			Err: fmt.Errorf("by the record of the last run its device is %s, but the address %s on it is no VIP", names.Device,
				others[0]),
			Hint: fmt.Sprintf("if the device is another program's, remove the file names in %s; else remove the address",
				stateDir),
		}
	}
	return nil
}

// becomeOwner changes the process from root to the owner of the state directory, with
// the two capabilities of the service. That user can write any file there, so root must
// not act on its content. With tables it returns iptables, opened as root; nil if root owns
// the directory.
func (c *cleanupCommand) becomeOwner(ctx context.Context, stateDir string, withTables bool) (*host.Tables, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	d, err := statefile.Open(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		c.warn(err.Error()) // nothing will be read there
		return nil, nil
	}
	defer d.Close()
	uid, gid, err := d.Owner()
	if err != nil || uid == 0 {
		return nil, err
	}
	var tables *host.Tables
	if withTables {
		if tables, err = host.OpenTables(ctx); err != nil && len(kernel.Missing(err)) == 0 {
			return nil, err
		}
	}
	if tables != nil && err == nil && !c.dryRun {
		if err := tables.ShareLock(gid); err != nil {
			c.warn(err.Error())
		}
	}
	if err := host.BecomeUser(uid, gid); err != nil {
		return nil, &cli.Error{
			Code: cli.Permission, Err: fmt.Errorf("%s does not belong to root: %w", stateDir, err),
			Hint: "run it as that user with CAP_NET_ADMIN and CAP_NET_RAW, or give the directory to root",
		}
	}
	return tables, nil
}

// lastNames are the names of the objects in the kernel: those of the last run, or the
// configured ones if there is no record.
func (c *cleanupCommand) lastNames(s daemon.Setup) kernel.Names {
	last, ok, err := host.LastNames(s.Config.StateDir)
	if err != nil {
		c.warn(err.Error())
	}
	if !ok {
		return s.Config.Names()
	}
	return last
}
