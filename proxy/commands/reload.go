package commands

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
)

// reloadCommand makes the daemon read its files again.
type reloadCommand struct {
	remote
	output
	wait bool
}

// Reload is the command reload.
func Reload(e *Env) cli.Command {
	r := &reloadCommand{remote: remote{e}}
	return cli.Command{
		Name: "reload", Short: "make the running svcproxy read its files again",
		Long:     `A file that is not valid is refused: its last good content stays in effect.`,
		Examples: []string{"svcproxy reload --wait"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "with --wait: a step failed three times, or the 2 minutes are over"},
			{Code: cli.Config, When: "with --wait: a file was refused"},
			noDaemon,
			{Code: cli.Degraded, When: "with --wait: an address belongs to another service or another program"},
		},
		Flags: r.flags, Common: configFlag, Run: r.run,
	}
}

func (r *reloadCommand) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&r.wait, "wait", false, "wait until the new configuration is active, at most 2 minutes")
	fs.StringVarP((*string)(&r.output), "output", "o", "text", "print the result of --wait in `FORMAT`: text or json")
	cli.Offer(fs, "output", "text", "json")
}

func (r *reloadCommand) run(ctx context.Context, _ []string) error {
	if err := r.valid(); err != nil {
		return err
	}
	stop := func() {}
	if r.wait {
		stop = r.progress(ctx)
	}
	done, err := r.client().Reload(ctx, r.wait)
	stop()
	if err != nil || !r.wait {
		return err
	}
	if r.output == "json" {
		err = r.encode(done)
	} else {
		for _, change := range done.Restart {
			fmt.Fprintf(r.Out, "needs a restart: %s\n", change)
		}
		for _, line := range done.Warnings {
			r.warn(line)
		}
	}
	if refused := done.Err(); refused != nil {
		return refused
	}
	return err
}

// progressEvery is how often a long reload prints its progress.
const progressEvery = 5 * time.Second

// progress prints it until the returned function is called.
func (r *reloadCommand) progress(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		began, tick := time.Now(), time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if st, err := r.client().Status(ctx, false); err == nil {
				fmt.Fprintf(r.Err, "svcproxy: waiting for %v: %s\n", time.Since(began).Round(time.Second), st.Waits())
			}
		}
	})
	return func() {
		cancel()
		asking.Wait()
	}
}
