package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/sources"
)

// orderCommand gives one order about endpoints, or takes one back.
type orderCommand struct {
	remote
	output
	verb    control.Verb
	service string
	reason  string
	lasts   time.Duration
	force   bool
	wait    time.Duration // 0 = do not wait
}

// targets explains TARGET.
const targets = `TARGET is ADDRESS, ADDRESS:PORT, SERVICE/ADDRESS[:PORT], node=NAME or a CIDR.`

// Drain is the command drain.
func Drain(e *Env) cli.Command {
	c := &orderCommand{remote: remote{e}, verb: control.Drain}
	return cli.Command{
		Name: "drain", Args: "TARGET", Short: "give endpoints no new connections; theirs go on",
		Long: targets + `
The order survives restarts, and holds whatever health checks say, until undrain or --for
ends it. It needs --force for the last usable endpoint of a service, and where TARGET names
no endpoint.`,
		Examples: []string{"svcproxy drain 10.2.1.10 --reason 'kernel upgrade' --wait",
			"svcproxy drain node=rack4 --for 30m"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "the order is refused, or the kernel does not have it yet; with --wait: connections are " +
				"left"},
			noDaemon,
		},
		Flags: func(fs *pflag.FlagSet) { c.outFlags(fs); waitFlag(fs, &c.wait) }, Common: configFlag, Run: c.run,
	}
}

// Disable is the command disable.
func Disable(e *Env) cli.Command {
	c := &orderCommand{remote: remote{e}, verb: control.Disable}
	return cli.Command{
		Name: "disable", Args: "TARGET", Short: "take endpoints out at once; their connections are cut",
		Long: targets + `
The order survives restarts, until enable or --for ends it. It needs --force for the last
usable endpoint of a service, and where TARGET names no endpoint.`,
		Examples: []string{"svcproxy disable web/10.2.1.10:8080"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "the order is refused, or the kernel does not have it yet"},
			noDaemon,
		},
		Flags: c.outFlags, Common: configFlag, Run: c.run,
	}
}

// Undrain is the command undrain.
func Undrain(e *Env) cli.Command {
	c := &orderCommand{remote: remote{e}, verb: control.Undrain}
	return c.back("undrain", "end a drain")
}

// Enable is the command enable.
func Enable(e *Env) cli.Command {
	c := &orderCommand{remote: remote{e}, verb: control.Enable}
	return c.back("enable", "end a disable")
}

func (c *orderCommand) back(name, short string) cli.Command {
	return cli.Command{
		Name: name, Args: "TARGET", Short: short,
		Long: `Write the TARGET of the order, and its --service if it had one. svcproxy overrides lists
them. An endpoint that is down stays down.`,
		Examples: []string{"svcproxy " + name + " 10.2.1.10"},
		Exits:    []cli.Exit{{Code: cli.Failed, When: "there is no such order"}, noDaemon},
		Flags:    c.commonFlags, Common: configFlag, Run: c.run,
	}
}

// Weight is the command weight.
func Weight(e *Env) cli.Command {
	c := &orderCommand{remote: remote{e}, verb: control.Weight}
	return cli.Command{
		Name: "weight", Args: "TARGET WEIGHT", Short: "give endpoints another weight",
		Long: targets + `
WEIGHT is a number, a percentage of the weight in the files such as 50%, or default, which
ends the order. It has no effect under rr, lc and dh, which ignore weights.`,
		Examples: []string{"svcproxy weight 10.2.1.10 50%", "svcproxy weight 10.2.1.10 default"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "the order is refused, or the kernel does not have it yet"},
			noDaemon,
		},
		Flags: c.outFlags, Common: configFlag, Run: c.run,
	}
}

func (c *orderCommand) commonFlags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.StringVarP(&c.service, "service", "s", "", "only endpoints of this `SERVICE`")
	fs.StringVar(&c.reason, "reason", "", "why, for status and events; a `TEXT` of at most 200 bytes")
}

// outFlags are the flags of orders that can take endpoints out.
func (c *orderCommand) outFlags(fs *pflag.FlagSet) {
	c.commonFlags(fs)
	fs.DurationVar(&c.lasts, "for", 0, "end the order by itself after this `TIME`, such as 30m; 0s is never")
	fs.BoolVar(&c.force, "force", false, "even for the last usable endpoint of a service, or for none that is there")
}

func (c *orderCommand) run(ctx context.Context, args []string) error {
	order, err := c.order(args)
	if err != nil {
		return err
	}
	done, err := c.client().Order(ctx, order)
	if err != nil {
		return err
	}
	var left *leftover
	if c.wait > 0 && done.Pending == "" {
		if left, err = c.waitFor(ctx, c.wait, c.connections(done.Endpoints)); err != nil {
			return err
		}
	}
	if err := c.print(order, done, left); err != nil {
		return err
	}
	if done.Pending != "" {
		return cli.Errorf(cli.Failed, "svcproxy goes on trying: svcproxy status",
			"the order stands, but the kernel does not have it yet: %s", done.Pending)
	}
	return left.err()
}

// order reads the command line.
func (c *orderCommand) order(args []string) (control.Order, error) {
	o := control.Order{Verb: c.verb, For: c.lasts, Why: c.reason, Force: c.force}
	want := "one TARGET"
	n := 1
	if c.verb == control.Weight {
		want, n = "TARGET and WEIGHT", 2
	}
	if err := c.valid(); err != nil {
		return o, err
	}
	if len(args) != n {
		return o, cli.Errorf(cli.Usage, "", "%s wants %s, have %s", c.verb, want, cli.Given(args))
	}
	var err error
	if o.Target, err = control.ParseTarget(args[0], c.service); err == nil && n == 2 {
		if args[1] == "default" {
			o.Verb, o.For, o.Force = control.Unweight, 0, false
		} else {
			o.Weight, err = health.ParseWeight(args[1])
		}
	}
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return o, &cli.Error{Code: cli.Usage, Err: err}
	}
	return o, nil
}

// ordered is the answer in JSON. Fields are only ever added.
type ordered struct {
	control.Ordered
	*leftover // nil: it did not wait
}

func (c *orderCommand) print(o control.Order, done control.Ordered, left *leftover) error {
	if c.output == "json" {
		return c.encode(ordered{done, left})
	}
	said := map[control.Verb]string{
		control.Drain: "drained", control.Disable: "disabled", control.Weight: "weight " + o.Weight.String(),
		control.Undrain: "undrained", control.Enable: "enabled", control.Unweight: "weight as in the files",
	}[o.Verb]
	until := ""
	if !done.Until.IsZero() {
		until = " until " + done.Until.Local().Format(time.DateTime)
	}
	n := len(done.Endpoints)
	if _, err := fmt.Fprintf(c.Out, "%s: %s%s, %s\n", done.Target, said, until, sources.Count(n, "endpoint")); err != nil {
		return err
	}
	if n == 0 && !o.Verb.TakesBack() {
		c.warn("no service has such an endpoint now; an order without one is dropped after 24 hours")
	}
	if left != nil && left.Active == 0 {
		fmt.Fprintln(c.Out, left.conns)
	}
	return nil
}
