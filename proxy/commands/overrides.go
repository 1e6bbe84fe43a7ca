package commands

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/screen"
)

// overridesCommand lists the orders that stand.
type overridesCommand struct {
	remote
	output
}

// Overrides is the command overrides.
func Overrides(e *Env) cli.Command {
	c := &overridesCommand{remote: remote{e}}
	return cli.Command{
		Name: "overrides", Short: "list the orders of drain, disable and weight in effect",
		Long: `The running svcproxy keeps them in its stateDir. It drops an order when no endpoint has
matched it for 24 hours.`,
		Examples: []string{"svcproxy overrides"},
		Exits: []cli.Exit{
			noDaemon,
		},
		Flags: c.flag, Common: configFlag, Run: c.run,
	}
}

func (c *overridesCommand) run(ctx context.Context, _ []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	list, err := c.client().Overrides(ctx)
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.encode(list)
	}
	width, _ := screen.Size(c.Out)
	_, err = io.WriteString(c.Out, overridesText(list, time.Now(), width, screen.Colours(c.Out)))
	return err
}

// overridesText lists orders, one a line.
func overridesText(list health.Overrides, now time.Time, width int, colours bool) string {
	if len(list) == 0 {
		return "no orders\n"
	}
	rows := screen.Columns{Elastic: []int{5}}
	rows.Heading("TARGET", "ORDER", "SINCE", "ENDS", "BY", "REASON")
	for _, o := range list {
		order, ends, why := string(o.Verb), "-", o.Why
		if o.Verb == health.Reweigh {
			order += " " + o.Weight.String()
		}
		if !o.Until.IsZero() {
			ends = "in " + screen.Age(o.Until.Sub(now))
		}
		style := screen.Plain
		if !o.Unmatched.IsZero() {
			style = screen.Warn
			why = strings.TrimSpace(fmt.Sprintf("%s (no endpoint for %s)", why, screen.Age(now.Sub(o.Unmatched))))
		}
		rows.Row(screen.Cell{Text: o.Selector.String()}, screen.Cell{Text: order},
			screen.Cell{Text: screen.Age(now.Sub(o.Made))},
			screen.Cell{Text: ends}, screen.Cell{Text: o.By}, screen.Cell{Text: why, Style: style})
	}
	return strings.Join(rows.Lines(width, colours), "\n") + "\n"
}
