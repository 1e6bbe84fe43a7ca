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
	digest bool
	strict bool
}

// Status is the command status.
func Status(e *Env) cli.Command {
	s := &statusCommand{remote: remote{e}}
	return cli.Command{
		Name: "status", Args: "[SERVICE]", Short: "show what is served, what is wrong, and since when",
		Long: `It asks the running svcproxy. SERVICE is NAME or NAMESPACE/NAME; without it all services
are shown, those with a problem first. Endpoints that are down, while others serve, change
the exit code with --strict only: they come and go with each restart of a backend.`,
		Examples: []string{"svcproxy status", "svcproxy status web", "svcproxy status -o json"},
		Exits: []cli.Exit{
			{Code: cli.OK, When: "all is well"},
			noDaemon,
			{Code: cli.Degraded, When: "something is wrong, or a service is served only in part; with --strict: an endpoint " +
				"is down"},
			{Code: cli.NoBackends, When: "a service has no backends"},
		},
		Flags: s.flags, Common: configFlag, Run: s.run,
	}
}

func (s *statusCommand) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&s.output, "output", "o", "table", "print in `FORMAT`: table, wide or json")
	cli.Offer(fs, "output", "table", "wide", "json")
	fs.BoolVarP(&s.watch, "watch", "w", false, "keep showing the status as it changes")
	fs.BoolVar(&s.strict, "strict", false, "exit with 7 if an endpoint is down, too")
	fs.BoolVar(&s.digest, "digest", false, "show hashes of the virtual servers: nodes that send clients to the same "+
		"endpoints have the same")
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	format, err := status.ParseFormat(s.output)
	if err != nil {
		return &cli.Error{Code: cli.Usage, Err: err}
	}
	service := ""
	switch len(args) {
	case 0:
	case 1:
		service = args[0]
	default:
		return cli.Errorf(cli.Usage, "", "status takes one SERVICE, have %s", cli.Given(args))
	}
	view := func() (status.View, int) {
		v := status.View{Format: format, Service: service, Digest: s.digest, Colours: screen.Colours(s.Out)}
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
		return status.Watch{Out: s.Out, Err: s.Err, Ask: ask, View: view}.Run(ctx)
	}
	st, err := ask(ctx)
	if err != nil {
		return err
	}
	if err := status.Print(s.Out, st, v); err != nil {
		return err
	}
	verdict := st.Verdict(service)
	if s.strict && st.AnyDown(service) {
		verdict = status.Degraded
	}
	if verdict != status.Well {
		return &cli.Error{Code: int(verdict)}
	}
	return nil
}
