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
		Long: `The running svcproxy remembers its last 1,000 events, and for each change how long it
took from its cause to the kernel.`,
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *eventsCommand) flags(fs *pflag.FlagSet) {
	fs.StringVarP((*string)(&c.output), "output", "o", "text", "print in `FORMAT`: text, or json with one object per line")
	fs.BoolVarP(&c.follow, "follow", "f", false, "wait for new events and show them too")
}

func (c *eventsCommand) run(ctx context.Context, _ []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	lines, colours := json.NewEncoder(c.Out), screen.Colours(c.Out)
	return c.client().Events(ctx, 0, c.follow, func(e events.Event) error {
		if c.output == "json" {
			return lines.Encode(e)
		}
		_, err := fmt.Fprintln(c.Out, e.Line(colours))
		return err
	})
}
