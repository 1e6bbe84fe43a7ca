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
	cleanup, initOnly, version bool
}

// Run is the command run.
func Run(e *Env) cli.Command {
	r := &runCommand{Env: e}
	return cli.Command{
		Name: "run", Short: "serve until stopped; the kernel goes on serving after that",
		Long: `It reads the configuration and the service files and follows their changes. It needs
root, or CAP_NET_ADMIN and CAP_NET_RAW. On the node, systemctl start svcproxy runs it.`,
		Examples: []string{"svcproxy run", "svcproxy run --write-config-to /tmp/svcproxy.toml"},
		Exits: []cli.Exit{
			{Code: cli.Config, When: "the configuration is not valid"},
			{Code: cli.Missing, When: "the kernel or a program lacks something: the hint says how to get it"},
			{Code: cli.Permission, When: "rights are missing"},
		},
		Flags: r.flags, Common: []string{"config", "hostname-override", "kubeconfig", "logging-format", "v",
			"write-config-to"},
		Run: r.run,
	}
}

func (r *runCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&r.cleanup, "cleanup", false, "remove everything that svcproxy made, like svcproxy cleanup, and exit")
	fs.BoolVar(&r.initOnly, "init-only", false, "set the kernel parameters of the configuration, and exit")
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
	o := daemon.Options{Flags: r.config, Version: r.Version, Log: r.Err}
	if r.initOnly {
		return daemon.Init(ctx, o)
	}
	return daemon.Run(ctx, o)
}
