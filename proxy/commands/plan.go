package commands

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/packet"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/cli"
)

// planCommand prints what a sync would change.
type planCommand struct {
	offline
	detailedExitCode bool
}

// Plan is the command plan.
func Plan(e *Env) cli.Command {
	p := &planCommand{offline: offline{local: local{Env: e}}}
	return cli.Command{
		Name: "plan", Short: "print what a sync would change, and change nothing",
		Long: `Each line is a step: + adds, ~ changes, - removes. A line with ! is about an object that is
not changed, and says why. A line with ? is about an address: other hosts are asked whether
they have it before it is bound. It needs root, or --state.`,
		Examples: []string{"svcproxy plan", "svcproxy plan --detailed-exitcode"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "the services of the API server cannot be read"},
			{Code: cli.Config, When: "a file is not valid"},
			{Code: cli.Permission, When: "rights are missing"},
			{Code: cli.Changes, When: "with --detailed-exitcode: a sync would change something"},
		},
		Flags: p.flags, Common: configFlag, Run: p.run,
	}
}

func (p *planCommand) flags(fs *pflag.FlagSet) {
	p.flag(fs)
	fs.StringVar(&p.state, "state", "", "read the kernel's state from the text `FILE` instead; needs no root")
	fs.BoolVar(&p.detailedExitCode, "detailed-exitcode", false, "exit with 10 if a sync would change something")
}

func (p *planCommand) run(ctx context.Context, _ []string) error {
	if err := p.valid(); err != nil {
		return err
	}
	p.collects = p.output == "json"
	result, text, err := p.plan(ctx)
	if p.collects && err != nil { // there is no answer to have them
		for _, line := range p.warned {
			p.Env.warn(line)
		}
	}
	if err != nil {
		return err
	}
	if p.collects {
		result.Warnings = append(result.Warnings, p.warned...)
	}
	if err := p.print(result, text(result)); err != nil {
		return err
	}
	if p.detailedExitCode && !result.Empty() {
		return &cli.Error{Code: cli.Changes}
	}
	return nil
}

// plan returns what a sync would change, and how that is written.
func (p *planCommand) plan(ctx context.Context) (kernel.Plan, func(kernel.Plan) string, error) {
	s, err := p.load()
	if err != nil {
		return kernel.Plan{}, nil, err
	}
	if err := s.Supported(); err != nil {
		return kernel.Plan{}, nil, err
	}
	p.useMode(ctx, &s)
	have, err := p.observe(ctx, &s)
	if err != nil {
		return kernel.Plan{}, nil, err
	}
	if p.state == "" && s.Relays() {
		if err := p.relayed(ctx, s, &have); err != nil {
			return kernel.Plan{}, nil, err
		}
	}
	table, err := p.table(ctx, &s, &have)
	if err != nil {
		return kernel.Plan{}, nil, err
	}
	var prober proxy.Prober
	if p.state == "" {
		prober = host.Prober{}
	}
	want := p.wantAtStart(&s, table, &have)
	result := proxy.Plan(ctx, prober, want, have)
	announcing := s.Config.ForAnnounce()
	result.Warnings = append(result.Warnings, announcing.Waits(&want, &have)...)
	var byRules []kernel.VirtualKey
	if len(have.Firewall) > 0 {
		byRules = s.Fronts(table, have.Node).Elsewhere()
	}
	p.warn(slices.Concat(packet.Blocked(&have, &want, byRules), kernel.SmallHash(want.Sysctls, have.Sysctls))...)
	return result, func(p kernel.Plan) string { return host.Text(p, have.Names, have.Native) }, nil
}
