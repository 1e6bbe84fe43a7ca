package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/daemon"
)

// announceCommand withdraws what a daemon that is dead announced, and prints configurations of routing daemons.
type announceCommand struct {
	local
	ifDead bool
	engine string // "" = by announce.mode
}

// announceVerbs are the words that the command announce takes.
var announceVerbs = []string{"withdraw", "config"}

// Announce is the command announce.
func Announce(e *Env) cli.Command {
	c := &announceCommand{local: local{Env: e}}
	return cli.Command{
		Name: "announce", Args: "VERB", Short: "withdraw VIPs of a dead svcproxy; configure a routing daemon",
		Values: announceVerbs,
		Long: `VERB is withdraw or config.

withdraw removes the routes of announce.mode, and writes announce.file as on a drained node.
A stop or a crash withdraws nothing, because the kernel goes on serving. The unit
svcproxy-withdraw.timer runs withdraw if svcproxy has failed and is not restarted. A svcproxy
that crashes again and again withdraws when it starts. While svcproxy runs, use svcproxy
node drain.

config prints the configuration of a routing daemon, with the table, metric, file and VIPs
of this node. Comments in it name what else to change. Without VIPs it prints nothing for
keepalived and FRR.`,
		Examples: []string{"svcproxy announce withdraw", "svcproxy announce config --engine frr"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "withdraw: svcproxy runs, or something is left"},
			{Code: cli.Config, When: "config: a file is not valid, or no service has a VIP"},
			{Code: cli.Permission, When: "rights are missing"},
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *announceCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.ifDead, "if-dead", false, "withdraw: while svcproxy runs, do nothing and exit 0")
	fs.StringVar(&c.engine, "engine", "", "config: the routing `DAEMON`: "+engineNames()+
		"; by default the one for announce.mode")
}

func (c *announceCommand) run(ctx context.Context, args []string) error {
	switch {
	case len(args) != 1 || !slices.Contains(announceVerbs, args[0]):
		return cli.Errorf(cli.Usage, "", "announce wants one of withdraw and config, have %s", cli.Given(args))
	case args[0] == "withdraw" && c.engine != "":
		return cli.Errorf(cli.Usage, "", "announce withdraw has no --engine")
	case args[0] == "config" && c.ifDead:
		return cli.Errorf(cli.Usage, "", "announce config has no --if-dead")
	case args[0] == "config":
		return c.config(ctx)
	}
	return c.withdraw()
}

// withdraw removes all routes, and writes announce.file.
func (c *announceCommand) withdraw() error {
	lock, err := host.AcquireLock()
	var running *host.RunningError
	switch {
	case errors.As(err, &running) && c.ifDead:
		return nil
	case errors.As(err, &running):
		return &cli.Error{Code: cli.Failed, Err: err, Hint: "use svcproxy node drain"}
	case err != nil:
		return err
	}
	defer lock.Release()
	gone, failed := host.Withdraw()
	for _, a := range gone {
		fmt.Fprintf(c.Out, "withdrawn: %s\n", a.Addr)
	}
	return errors.Join(failed, c.writeFile())
}

// writeFile writes announce.file as on a drained node. If the configuration cannot be read, only routes were withdrawn.
func (c *announceCommand) writeFile() error {
	s, err := c.load()
	if err != nil {
		return fmt.Errorf("announce.file is not known: %w", err)
	}
	return daemon.WithdrawFile(s.Config.Announce)
}
