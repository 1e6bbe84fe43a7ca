package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// runCommand serves until it is told to stop. Like kube-proxy it has flags that do something
// else and exit.
type runCommand struct {
	*Env
	cleanup, version bool
}

// Run is the command run.
func Run(e *Env) cli.Command {
	r := &runCommand{Env: e}
	return cli.Command{Name: "run", Short: "serve until told to stop; the kernel goes on serving after that", Flags: r.flags, Run: r.run}
}

func (r *runCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&r.cleanup, "cleanup", false, "do what the command cleanup does, and exit")
	fs.BoolVar(&r.version, "version", false, "print the version and exit")
}

func (r *runCommand) run(ctx context.Context, args []string) error {
	switch {
	case r.config.WriteTo != "":
		return config.Write(r.config.WriteTo, config.Default())
	case r.version:
		return Version(r.Env).Run(ctx, args)
	case r.cleanup:
		return Cleanup(r.Env).Run(ctx, args)
	}
	return daemon.Run(ctx, daemon.Options{Flags: r.config, Version: r.Version, Log: r.Err})
}
