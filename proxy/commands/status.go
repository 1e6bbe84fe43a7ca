package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// statusCommand shows what is served and what is wrong.
type statusCommand struct {
	remote
	output string
	watch  bool
}

// Status is the command status.
func Status(e *Env) cli.Command {
	s := &statusCommand{remote: remote{e}}
	return cli.Command{
		Name: "status", Args: "[SERVICE]", Short: "show what is served, what is wrong, and since when",
		Long: `It asks the running svcproxy. SERVICE is NAME or NAMESPACE/NAME; without it all services
are shown, those with a problem first. The exit code is 0 if all is well, 7 if something
is wrong, 8 if a service has no backends, and 6 if svcproxy does not run.`,
		Flags: s.flags, Common: configFlag, Run: s.run,
	}
}

func (s *statusCommand) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&s.output, "output", "o", "table", "print in `FORMAT`: table, wide or json")
	fs.BoolVarP(&s.watch, "watch", "w", false, "keep showing the status as it changes")
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	format, err := status.ParseFormat(s.output)
	if err != nil {
		return err
	}
	service := ""
	switch len(args) {
	case 0:
	case 1:
		service = args[0]
	default:
		return cli.Errorf(cli.Usage, "", "status takes one SERVICE, have %q", args)
	}
	view := func() (status.View, int) {
		v := status.View{Format: format, Service: service, Colours: screen.Colours(s.Out)}
		height := 0
		if screen.Terminal(s.Out) {
			v.Width, height = screen.Size(s.Out)
		}
		return v, height
	}
	v, _ := view()
	ask := func(ctx context.Context) (status.Status, error) {
		if service != "" {
			return s.client().Detail(ctx, []string{service})
		}
		return s.client().Status(ctx, v.Endpoints())
	}
	if s.watch {
		return status.Watch{Out: s.Out, Ask: ask, View: view}.Run(ctx)
	}
	st, err := ask(ctx)
	if err != nil {
		return err
	}
	if err := status.Print(s.Out, st, v); err != nil {
		return err
	}
	return st.Verdict(service)
}
