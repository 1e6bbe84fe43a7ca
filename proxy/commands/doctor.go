package commands

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/doctor"
)

// doctorCommand looks for what makes this node fail.
type doctorCommand struct {
	*Env
	output
	probe bool
}

// Doctor is the command doctor.
func Doctor(e *Env) cli.Command {
	c := &doctorCommand{Env: e}
	return cli.Command{
		Name: "doctor", Short: "find what is wrong on this node, and how to correct it",
		Long: `It checks what commonly keeps a node from serving: modules, kernel parameters, connection
tracking, routes and neighbours, firewalls, other programs, disks, folders, certificates, and
the state of the running svcproxy. It takes a second and changes nothing. It names what it
could not check, and the missing right. For members of the group svcproxy the running
svcproxy reads the kernel.`,
		Examples: []string{"svcproxy doctor", "svcproxy doctor --probe"},
		Exits: []cli.Exit{
			{Code: cli.OK, When: "nothing is wrong in what could be checked"},
			{Code: cli.Degraded, When: "something is wrong"},
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *doctorCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.BoolVar(&c.probe, "probe", false,
		"also ask other hosts for the VIPs, and connect to endpoints without a health check")
}

func (c *doctorCommand) run(ctx context.Context, _ []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	x := newExamination(c.Env)
	x.probe = c.probe
	a := doctor.Examine(x.facts(ctx))
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if c.output == "json" {
		err = c.encode(a)
	} else {
		_, err = fmt.Fprint(c.Out, a)
	}
	if err == nil && len(a.Findings) > 0 {
		err = &cli.Error{Code: cli.Degraded}
	}
	return err
}
