package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// healthCommand shows what health checks found, or makes one probe.
type healthCommand struct {
	remote
	output
	watch bool
}

// Health is the command health.
func Health(e *Env) cli.Command {
	c := &healthCommand{remote: remote{e}}
	return cli.Command{
		Name: "health", Args: "[SERVICE...]", Short: "show which endpoints are up, and why",
		Long: `It lists the endpoints that have a health check or an order, with the last result and the
time of the next probe. SERVICE is NAME or NAMESPACE/NAME.

health probe SERVICE/ENDPOINT sends one probe now, and prints its steps with their times.
ENDPOINT is ADDRESS or ADDRESS:PORT. It changes nothing.`,
		Examples: []string{"svcproxy health", "svcproxy health -w web", "svcproxy health probe web/10.2.1.10"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "probe: the answer is not good"},
			noDaemon,
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *healthCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.BoolVarP(&c.watch, "watch", "w", false, "keep showing it as it changes")
}

func (c *healthCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "probe" {
		return c.probe(ctx, args[1:])
	}
	ask := func(ctx context.Context) (status.Status, error) { return c.client().Health(ctx, args) }
	if c.watch {
		return status.Watch{Out: c.Out, Err: c.Err, Ask: ask, View: c.view, Print: status.PrintChecks}.Run(ctx)
	}
	st, err := ask(ctx)
	if err == nil {
		err = st.Lacks(args)
	}
	if err != nil {
		return err
	}
	v, _ := c.view()
	return status.PrintChecks(c.Out, st, v)
}

func (c *healthCommand) view() (v status.View, height int) {
	v = status.View{Format: status.Table, Colours: screen.Colours(c.Out)}
	if c.output == "json" {
		v.Format = status.JSON
	}
	if screen.Terminal(c.Out) {
		v.Width, height = screen.Size(c.Out)
	}
	return v, height
}
