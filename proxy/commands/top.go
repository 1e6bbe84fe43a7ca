package commands

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// topCommand shows traffic live.
type topCommand struct {
	remote
	frames int
	every  time.Duration
}

// Top is the command top.
func Top(e *Env) cli.Command {
	t := &topCommand{remote: remote{e}}
	return cli.Command{
		Name: "top", Short: "show connections and bytes per second, live",
		Long: `Keys: c, b and n sort by connections, bytes and name; e shows or hides endpoints; the
arrow keys scroll; q quits.`,
		Examples: []string{"svcproxy top", "svcproxy top -n 1"},
		Exits: []cli.Exit{
			noDaemon,
		},
		Flags: t.flags, Common: configFlag, Run: t.run,
	}
}

func (t *topCommand) flags(fs *pflag.FlagSet) {
	fs.IntVarP(&t.frames, "frames", "n", 0, "print `N` frames as plain text and stop; 0 runs until q")
	fs.DurationVarP(&t.every, "delay", "d", 2*time.Second, "`TIME` between two frames, at least 100ms")
}

// leastDelay limits how often the daemon is asked.
const leastDelay = 100 * time.Millisecond

func (t *topCommand) run(ctx context.Context, _ []string) error {
	if t.every < leastDelay || t.frames < 0 {
		return cli.Errorf(cli.Usage, "", "--delay must be at least %v, and --frames 0 or more", leastDelay)
	}
	return status.Top{In: t.In, Out: t.Out, Ask: t.client().Detail, Every: t.every, Frames: t.frames}.Run(ctx)
}
