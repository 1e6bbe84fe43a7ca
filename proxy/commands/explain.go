package commands

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/explain"
)

// explainCommand says what this node does with a packet. Like plan it reads the kernel and the
// service files.
type explainCommand struct {
	planCommand
	from, in string
}

// Explain is the command explain.
func Explain(e *Env) cli.Command {
	c := &explainCommand{planCommand: planCommand{local: local{Env: e}}}
	return cli.Command{
		Name: "explain", Args: "[tcp|udp|sctp] VIP:PORT | SERVICE", Short: "say what becomes of a packet, step by step, and why",
		Long: `It prints the way of the first packet of a connection, a line for each step; a step with !
keeps it from being served. The last line says what becomes of it. With SERVICE it does so
for each address: from outside, from the node and from a backend. It changes and sends
nothing, and needs root, or --state. The exit code is 0 if a backend gets the packet, 7 if
some backends do not, and else 1.`,
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *explainCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.StringVar(&c.from, "from", "", "the client: `ADDR`, ADDR:PORT, or node; without it one outside")
	fs.StringVar(&c.in, "in", "", "the `LINK` that the packet comes in by")
	fs.StringVar(&c.state, "state", "", "read the kernel's state from the text `FILE` instead; needs no root")
}

// asked is what the arguments ask about.
type asked struct {
	proto   kernel.Proto
	to      netip.AddrPort
	service string // "" if they name an address
}

func parseAsked(args []string) (asked, error) {
	usage := func(format string, values ...any) error {
		return cli.Errorf(cli.Usage, "svcproxy explain tcp 203.0.113.9:80, or svcproxy explain SERVICE", format, values...)
	}
	a := asked{proto: kernel.TCP}
	switch len(args) {
	case 1:
		var err error
		if a.to, err = netip.ParseAddrPort(args[0]); err == nil {
			break
		}
		if _, err := netip.ParseAddr(args[0]); err == nil {
			return a, usage("%s has no port", args[0])
		}
		a.service = args[0]
		return a, nil
	case 2:
		var err error
		if a.proto, err = kernel.ParseProto(args[0]); err != nil {
			return a, usage("%w", err)
		}
		if a.to, err = netip.ParseAddrPort(args[1]); err != nil {
			return a, usage("%q: want ADDRESS:PORT", args[1])
		}
	default:
		return a, usage("explain wants a VIP:PORT or a SERVICE, have %q", args)
	}
	a.to = netip.AddrPortFrom(a.to.Addr().Unmap(), a.to.Port())
	return a, nil
}

func (c *explainCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	what, err := parseAsked(args)
	switch {
	case err != nil:
		return err
	case what.service != "" && c.from+c.in != "":
		return cli.Errorf(cli.Usage, "", "--from and --in are about a VIP:PORT, not about a service")
	}
	facts, done, err := c.facts(ctx, what)
	if err != nil {
		return err
	}
	defer done()
	if what.service != "" {
		return c.explainService(facts, what.service)
	}
	p, err := facts.Packet(what.proto, what.to, c.from, c.in)
	if err != nil {
		return cli.Errorf(cli.Usage, "", "%w", err)
	}
	a := explain.Explain(facts, p)
	return c.answer(a, a.Fate)
}

func (c *explainCommand) explainService(facts explain.Facts, name string) error {
	all, err := explain.Service(facts, name)
	if err != nil {
		return err
	}
	return c.answer(all, all.Worst())
}

// answer prints an answer. Its fate is the exit code.
func (c *explainCommand) answer(a fmt.Stringer, worst explain.Fate) error {
	var err error
	if c.output == "json" {
		err = c.encode(a)
	} else {
		_, err = fmt.Fprint(c.Out, a)
	}
	switch {
	case err != nil || worst == explain.Served:
		return err
	case worst == explain.Partly:
		return &cli.Error{Code: cli.Degraded}
	}
	return &cli.Error{Code: cli.Failed}
}

// facts reads the kernel, the sources, and what the daemon knows of health. done releases what
// answers questions about routes.
func (c *explainCommand) facts(ctx context.Context, what asked) (f explain.Facts, done func(), err error) {
	s, err := c.load()
	if err != nil {
		return f, nil, err
	}
	if err := s.Supported(); err != nil {
		return f, nil, err
	}
	if f.Kernel, err = c.observe(ctx, &s); err != nil {
		return f, nil, needsRights(err)
	}
	if used := c.mode(ctx, &s, &f); used == "userspace" {
		return f, nil, cli.Errorf(cli.Failed, "svcproxy status SERVICE and svcproxy health show what is served",
			"in mode userspace no packet can be explained: connections end at svcproxy")
	}
	table, err := c.table(ctx, &s, f.Kernel.Node)
	switch {
	case err == nil:
		f.Fronts = s.Fronts(table, f.Kernel.Node)
	case what.service != "":
		return f, nil, err
	default:
		c.warn("without the services: " + err.Error()) // the kernel says enough
	}
	if c.state != "" {
		return f, func() {}, nil
	}
	paths, err := host.OpenPaths()
	if err != nil {
		return f, nil, err
	}
	f.Network = paths
	return f, paths.Close, nil
}

// needsRights adds to a lack of rights what works without them.
func needsRights(err error) error {
	if cli.Code(err) != cli.Permission {
		return err
	}
	return &cli.Error{
		Code: cli.Permission, Err: err,
		Hint: "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW; svcproxy status SERVICE needs only the group svcproxy",
	}
}

// mode is the mode in use. If a daemon answers it is the daemon's, and f gets what that knows of
// health.
func (c *explainCommand) mode(ctx context.Context, s *daemon.Setup, f *explain.Facts) string {
	if c.state != "" {
		return s.Mode()
	}
	st, err := control.Client{Socket: daemon.Socket(s.Config.RuntimeDir)}.Health(ctx, nil)
	if err != nil {
		return s.Mode()
	}
	f.Health = map[explain.Endpoint]string{}
	for i := range st.Services {
		for _, e := range st.Services[i].Endpoints {
			if proto, err := kernel.ParseProto(e.Protocol); err == nil && e.Health != nil {
				f.Health[explain.Endpoint{Proto: proto, Addr: e.Address}] = e.Health.Text
			}
		}
	}
	return st.Daemon.Mode
}
