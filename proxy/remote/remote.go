// Package remote is the commands that ask a running svcproxy: status, top,
// events and reload. They need its control socket and nothing else of the node.
package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/command"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/events"
	"github.com/svcproxy/svcproxy/proxy/exit"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// Remote is the commands together, with their flags.
type Remote struct {
	// Socket is where the daemon listens; it is asked for once flags are known.
	Socket  func() string
	In, Out *os.File
	Err     io.Writer // for warnings and progress

	output string
	watch  bool
	follow bool
	wait   bool
	frames int
	every  time.Duration
}

// Commands are those for a table of commands.
func (r *Remote) Commands() []command.Command {
	return []command.Command{
		{Name: "status", Args: "[SERVICE]", Short: "show what is served, what is wrong, and since when", Flags: r.statusFlags, Run: r.status},
		{Name: "top", Short: "show connections and bytes per second, live", Flags: r.topFlags, Run: r.top},
		{Name: "events", Short: "show what changed, when and why", Flags: r.eventsFlags, Run: r.events},
		{Name: "reload", Short: "read the configuration and the service files again", Flags: r.reloadFlags, Run: r.reload},
	}
}

func (r *Remote) statusFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&r.output, "output", "o", "table", "`FORMAT`: table, wide or json")
	fs.BoolVarP(&r.watch, "watch", "w", false, "go on showing it as it changes")
}

func (r *Remote) status(ctx context.Context, args []string) error {
	format, err := status.ParseFormat(r.output)
	if err != nil {
		return err
	}
	service := ""
	switch len(args) {
	case 0:
	case 1:
		service = args[0]
	default:
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("status takes one SERVICE, have %q", args)}
	}
	view := func() (status.View, int) {
		v := status.View{Format: format, Service: service, Colours: screen.Colours(r.Out)}
		height := 0
		if screen.Terminal(r.Out) {
			v.Width, height = screen.Size(r.Out)
		}
		return v, height
	}
	v, _ := view()
	ask := func(ctx context.Context) (status.Status, error) {
		if service != "" {
			return r.client().Detail(ctx, []string{service})
		}
		return r.client().Status(ctx, v.Endpoints())
	}
	if r.watch {
		return status.Watch{Out: r.Out, Ask: ask, View: view}.Run(ctx)
	}
	st, err := ask(ctx)
	if err != nil {
		return err
	}
	if err := status.Print(r.Out, st, v); err != nil {
		return err
	}
	return st.Verdict(service)
}

func (r *Remote) topFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&r.frames, "frames", "n", 0, "stop after `N` frames, written as plain text; 0 goes on")
	fs.DurationVarP(&r.every, "delay", "d", 2*time.Second, "time between two frames")
}

// leastDelay bounds how often the daemon is asked.
const leastDelay = 100 * time.Millisecond

func (r *Remote) top(ctx context.Context, _ []string) error {
	if r.every < leastDelay || r.frames < 0 {
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("top wants a delay of at least %v and no negative number of frames", leastDelay)}
	}
	return status.Top{In: r.In, Out: r.Out, Ask: r.client().Detail, Every: r.every, Frames: r.frames}.Run(ctx)
}

func (r *Remote) eventsFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&r.output, "output", "o", "text", "`FORMAT`: text, or json for one object a line")
	fs.BoolVarP(&r.follow, "follow", "f", false, "go on with those that come")
}

func (r *Remote) events(ctx context.Context, _ []string) error {
	if err := r.textOrJSON(); err != nil {
		return err
	}
	lines, colours := json.NewEncoder(r.Out), screen.Colours(r.Out)
	return r.client().Events(ctx, 0, r.follow, func(e events.Event) error {
		if r.output == "json" {
			return lines.Encode(e)
		}
		_, err := fmt.Fprintln(r.Out, e.Line(colours))
		return err
	})
}

func (r *Remote) reloadFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&r.wait, "wait", false, "wait until it is programmed and verified, 2 minutes at most: exit 3 if something was refused, 1 if a step failed, 7 if something is in conflict")
	fs.StringVarP(&r.output, "output", "o", "text", "`FORMAT` of what --wait tells: text or json")
}

func (r *Remote) reload(ctx context.Context, _ []string) error {
	if err := r.textOrJSON(); err != nil {
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
		err = encode(r.Out, done)
	} else {
		for _, change := range done.Restart {
			fmt.Fprintf(r.Out, "needs a restart: %s\n", change)
		}
		for _, line := range done.Warnings {
			fmt.Fprintf(r.Err, "svcproxy: warning: %s\n", line)
		}
	}
	if refused := done.Err(); refused != nil {
		return refused
	}
	return err
}

// progressEvery is how often a reload that takes long says how far it is.
const progressEvery = 5 * time.Second

// progress says so, until the function returned is called.
func (r *Remote) progress(ctx context.Context) (stop func()) {
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
				fmt.Fprintf(r.Err, "svcproxy: waiting for %v: %s\n", time.Since(began).Round(time.Second), st.Sync.Now())
			}
		}
	})
	return func() {
		cancel()
		asking.Wait()
	}
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (r *Remote) textOrJSON() error {
	if r.output != "text" && r.output != "json" {
		return &exit.Error{Code: exit.Usage, Err: fmt.Errorf("output %q: want text or json", r.output)}
	}
	return nil
}

func (r *Remote) client() control.Client { return control.Client{Socket: r.Socket()} }
