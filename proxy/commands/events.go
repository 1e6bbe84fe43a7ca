package commands

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// eventsCommand shows what changed.
type eventsCommand struct {
	remote
	output
	follow bool
}

// Events is the command events.
func Events(e *Env) cli.Command {
	c := &eventsCommand{remote: remote{e}}
	return cli.Command{
		Name: "events", Short: "show what changed, when and why",
		Long: `The running svcproxy keeps the last 1,000 events, also those before a restart. For each
change it shows the time from its cause to the kernel. --follow goes on when svcproxy
restarts.`,
		Examples: []string{"svcproxy events", "svcproxy events -f"},
		Exits: []cli.Exit{
			noDaemon,
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *eventsCommand) flags(fs *pflag.FlagSet) {
	fs.StringVarP((*string)(&c.output), "output", "o", "text", "print in `FORMAT`: text, or json with one object per line")
	cli.Offer(fs, "output", "text", "json")
	fs.BoolVarP(&c.follow, "follow", "f", false, "wait for new events and show them too")
}

func (c *eventsCommand) run(ctx context.Context, _ []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	lines, colours := json.NewEncoder(c.Out), screen.Colours(c.Out)
	show := func(e events.Event) error {
		if c.output == "json" {
			return lines.Encode(e)
		}
		_, err := fmt.Fprintln(c.Out, e.Line(colours))
		return err
	}
	if c.follow {
		return c.client().Follow(ctx, show, c.connected)
	}
	return c.client().Events(ctx, 0, false, show)
}

// connected says on standard error that the connection was lost, or that it is back.
func (c *eventsCommand) connected(again bool) {
	text := "svcproxy does not answer; waiting for it"
	if again {
		text = "svcproxy answers again"
	}
	fmt.Fprintln(c.Err, "svcproxy:", text)
}
