package commands

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// purgeCommand removes everything that svcproxy made, its files too.
type purgeCommand struct {
	cleanupCommand
	files bool
}

// Purge is the hidden command purge, which packaging/deb/postrm calls. It does what cleanup does, but only if the state
// directory says that svcproxy has run: on a node that another proxy serves, the names in the kernel may be that one's.
// Then it removes svcproxy's files from stateDir and runtimeDir.
func Purge(e *Env) cli.Command {
	c := &purgeCommand{cleanupCommand: cleanupCommand{local: local{Env: e}}}
	return cli.Command{
		Name: "purge", Short: "remove everything that svcproxy made, its files too, for a purge of the package", Hidden: true,
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *purgeCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.files, "files", false, "leave the kernel alone: the machine has booted since svcproxy ran")
}

func (c *purgeCommand) run(ctx context.Context, _ []string) error {
	s, err := c.load()
	if err != nil && s.Config.StateDir == "" {
		return err
	}
	if err != nil { // also a configuration that is not valid says where the state is
		c.warn(err.Error())
	}
	var have others
	if !c.files {
		if have, err = lookForOthers(); err != nil {
			return err
		}
	}
	// This comes before anything in the state directory is read or removed.
	if s.Tables, err = c.becomeOwner(ctx, s.Config.StateDir, !c.files); err != nil {
		return err
	}
	lock, err := lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	if !c.files && c.hasRun(s) {
		// If something of the kernel is left, the files have to stay: they say what is svcproxy's.
		err := c.clean(ctx, s, have)
		if errors.Is(err, errKubeProxy) { // what it took over is no longer ours
			c.warn(err.Error())
		} else if err != nil {
			return err
		}
	}
	return daemon.RemoveFiles(s.Config)
}

// hasRun reports whether there is a record of a run, also if it cannot be read.
func (c *purgeCommand) hasRun(s daemon.Setup) bool {
	_, ok, err := host.LastNames(s.Config.StateDir)
	return ok || err != nil
}
