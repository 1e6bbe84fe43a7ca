package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
		Long: `It ends all service on this node. Stop svcproxy first: systemctl stop svcproxy. What
other programs made stays.`,
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *cleanupCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.BoolVar(&c.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	fs.BoolVar(&c.leftovers, "leftovers", false, "also remove virtual servers that kube-proxy left behind and no service wants")
}

func (c *cleanupCommand) run(ctx context.Context, _ []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	s, err := c.load()
	if err != nil {
		return err
	}
	// Before anything is read there.
	if s.Tables, err = c.becomeOwner(ctx, s.Config.StateDir); err != nil {
		return err
	}
	if !c.dryRun {
		lock, err := host.AcquireLock()
		var running *host.RunningError
		if errors.As(err, &running) {
			return &cli.Error{Code: cli.Failed, Err: err, Hint: "stop it first: systemctl stop svcproxy"}
		}
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	names := c.lastNames(s)
	k, err := s.Open(ctx, names)
	if err != nil {
		return err
	}
	defer k.Close()
	if names != s.Config.Names() {
		if err := unlikely(ctx, k, names); err != nil {
			return err
		}
	}
	if err := s.OwnsDevice(k, k.Names()); err != nil {
		return err
	}
	if err := k.Warning(); err != nil {
		c.warn(err.Error())
	}
	if err := proxy.Clean(ctx, k, proxy.Cleaning{Dry: c.dryRun, Leftovers: c.leftovers}, c.print); err != nil || c.dryRun {
		return err
	}
	return errors.Join(host.ForgetRecord(s.Config.StateDir), host.ForgetNames(s.Config.StateDir))
}

// unlikely refuses names of a record, which the service's user can write, if what
// is on the device is not svcproxy's.
func unlikely(ctx context.Context, k *host.Kernel, names kernel.Names) error {
	have, err := k.Read(ctx)
	if err != nil {
		return err
	}
	if others := have.Unserved(); len(others) > 0 {
		return &cli.Error{
			Code: cli.Failed,
			Err:  fmt.Errorf("the last run's device is said to be %s, but its address %s is no VIP", names.Device, others[0]),
			Hint: "if it is another program's, remove the file names in stateDir; else remove the address",
		}
	}
	return nil
}

// becomeOwner has root go on as the user whose the state directory is, with that
// user's two capabilities: what is read there is that user's word, and must not
// become root's deed. Root opens iptables before; nil if it stays root.
func (c *cleanupCommand) becomeOwner(ctx context.Context, stateDir string) (*host.Tables, error) {
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
	tables, err := host.OpenTables(ctx)
	if err != nil {
		return nil, err
	}
	if !c.dryRun {
		if err := tables.ShareLock(gid); err != nil {
			c.warn(err.Error())
		}
	}
	if err := host.BecomeUser(uid, gid); err != nil {
		return nil, &cli.Error{
			Code: cli.Permission, Err: fmt.Errorf("%s is not root's: %w", stateDir, err),
			Hint: "run it as that user with CAP_NET_ADMIN and CAP_NET_RAW, or give the directory to root",
		}
	}
	return tables, nil
}

// lastNames are the names that objects have: those of the last run, or else the
// configured ones.
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
