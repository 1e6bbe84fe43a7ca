package commands

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/daemon"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/mode"
)

// explainCommand says what this node does with a packet. Like plan it reads the kernel and the
// service files.
type explainCommand struct {
	offline
	from, in string
	mark     string
	want     bool
	conn     bool
}

// Explain is the command explain.
func Explain(e *Env) cli.Command {
	c := &explainCommand{offline: offline{local: local{Env: e}}}
	return cli.Command{
		Name: "explain", Args: "[tcp|udp|sctp] VIP:PORT | SERVICE",
		Short: "show what happens to a packet, step by step, and why",
		Long: `It follows the first packet of a connection and prints a line for each step. A line with !
is why the packet is not served. The first and the last line are the result, with an "if" for what
it cannot know: whether a backend answers that no health check covers, what other hosts do, and
rules of other programs about limits or ipsets. With SERVICE it follows a packet to each address:
from outside, from the node and from a backend. It changes nothing and sends nothing. It needs root,
or --state; for a member of the group svcproxy the running svcproxy answers.`,
		Examples: []string{"svcproxy explain 198.51.100.80:80", "svcproxy explain udp 10.96.0.10:53 --from 192.0.2.7",
			"svcproxy explain web"},
		Exits: []cli.Exit{
			{Code: cli.OK, When: "a backend gets the packet"},
			{Code: cli.Failed, When: "no backend gets it"},
			{Code: cli.Permission, When: "rights are missing, and no svcproxy runs that could answer"},
			{Code: cli.Degraded, When: "some backends do not get it, all are down, or rules that cannot be judged decide"},
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *explainCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.StringVar(&c.from, "from", "", "the client: `ADDR`, ADDR:PORT, or node; without it one outside")
	fs.StringVar(&c.in, "in", "", "the `LINK` that the packet comes in by")
	fs.StringVar(&c.mark, "mark", "", "the firewall mark, a `NUMBER`, that your own rules give the packet")
	fs.BoolVar(&c.conn, "conn", false, "show where the existing connection of --from ADDR:PORT is")
	fs.BoolVar(&c.want, "want", false, "explain what a sync of the files would make, before it is made")
	fs.StringVar(&c.state, "state", "", "read the kernel's state from the text `FILE` instead; needs no root")
}

func (c *explainCommand) question(args []string) (explain.Question, error) {
	usage := func(format string, values ...any) error {
		return cli.Errorf(cli.Usage, "svcproxy explain tcp 203.0.113.9:80, or svcproxy explain SERVICE", format, values...)
	}
	q := explain.Question{Proto: kernel.TCP, From: c.from, In: c.in, Conn: c.conn}
	if c.mark != "" {
		n, err := strconv.ParseUint(c.mark, 0, 32)
		if err != nil {
			return q, usage("--mark %q: want a number, such as 7 or 0x7", c.mark)
		}
		q.Mark = uint32(n)
	}
	_, err := netip.ParseAddrPort(c.from)
	if c.conn && err != nil {
		return q, usage("--conn wants the connection's client: --from ADDR:PORT")
	}
	switch len(args) {
	case 1:
		if q.To, err = netip.ParseAddrPort(args[0]); err == nil {
			break
		}
		if _, err := netip.ParseAddr(args[0]); err == nil {
			return q, usage("%s has no port", args[0])
		}
		if q.Service = args[0]; c.from+c.in+c.mark != "" {
			return q, cli.Errorf(cli.Usage, "", "--from, --in and --mark are about a VIP:PORT, not about a service")
		}
		return q, nil
	case 2:
		if q.Proto, err = explain.ParseProto(args[0]); err != nil {
			return q, usage("%w", err)
		}
		if q.To, err = netip.ParseAddrPort(args[1]); err != nil {
			return q, usage("%q: want ADDRESS:PORT", args[1])
		}
	default:
		return q, usage("explain wants a VIP:PORT or a SERVICE, have %s", cli.Given(args))
	}
	q.To = netip.AddrPortFrom(q.To.Addr().Unmap(), q.To.Port())
	return q, nil
}

func (c *explainCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	q, err := c.question(args)
	if err != nil {
		return err
	}
	result, err := c.ask(ctx, q)
	if err != nil && c.state == "" && !c.want && cli.Code(err) == cli.Permission {
		result, err = c.askDaemon(ctx, q, err)
	}
	if err != nil {
		return err
	}
	return c.answer(result, result.Worst())
}

// ask answers from what this process can read.
func (c *explainCommand) ask(ctx context.Context, q explain.Question) (explain.Result, error) {
	facts, done, err := c.facts(ctx, q)
	if err != nil {
		return nil, err
	}
	defer done()
	result, err := explain.Ask(facts, q)
	if errors.Is(err, explain.ErrSource) {
		return nil, cli.Errorf(cli.Usage, "", "%w", err)
	}
	return result, err
}

// askDaemon lets the daemon answer a user who lacks the rights. If it cannot either, the error says which rights are
// missing.
func (c *explainCommand) askDaemon(ctx context.Context, q explain.Question, lacking error) (explain.Result, error) {
	result, err := remote{c.Env}.client().Explain(ctx, q)
	if code := cli.Code(err); code != cli.NoDaemon && code != cli.Permission {
		return result, err
	}
	hint := "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW; or start svcproxy, which answers members of the group " +
		"svcproxy"
	if cli.Code(err) == cli.Permission {
		hint = "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW; or as a member of the group svcproxy, for whom " +
			"svcproxy answers"
	}
	return nil, &cli.Error{Code: cli.Permission, Err: lacking, Hint: hint}
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
	case worst == explain.Partly || worst == explain.Unsure:
		return &cli.Error{Code: cli.Degraded}
	}
	return &cli.Error{Code: cli.Failed}
}

// facts reads the kernel, the sources, and what the daemon knows of health. done releases what
// answers questions about routes.
func (c *explainCommand) facts(ctx context.Context, q explain.Question) (f explain.Facts, done func(), err error) {
	s, err := c.load()
	if err != nil {
		return f, nil, err
	}
	if err := s.Supported(); err != nil {
		return f, nil, err
	}
	if c.want {
		c.useMode(ctx, &s)
	}
	if f.Kernel, err = c.observe(ctx, &s); err != nil {
		return f, nil, err
	}
	if used := c.mode(ctx, &s, &f); used == mode.Userspace {
		return f, nil, cli.Errorf(cli.Failed, "svcproxy status SERVICE and svcproxy health show what is served",
			"%w", daemon.ErrNotExplained)
	}
	table, err := c.table(ctx, &s, &f.Kernel)
	switch {
	case err == nil:
		f.Fronts = s.Fronts(table, f.Kernel.Node)
	case q.Service != "" || c.want:
		return f, nil, err
	default:
		c.warn("without the services: " + err.Error()) // the kernel says enough
	}
	if c.want {
		if f.Kernel, err = c.synced(&s, table, f.Kernel); err != nil {
			return f, nil, err
		}
	}
	if c.state != "" {
		return f, func() {}, nil
	}
	if f.Kernel.Firewall, err = host.Firewall(ctx, s.Config.Names()); err != nil {
		return f, nil, err
	}
	paths, err := host.OpenPaths()
	if err != nil {
		return f, nil, err
	}
	f.Network, f.Order, f.Connection = paths, host.RealOrder, host.Connection
	return f, paths.Close, nil
}

// mode is the mode in use. If a daemon answers it is the daemon's, and f gets what that knows.
func (c *explainCommand) mode(ctx context.Context, s *daemon.Setup, f *explain.Facts) string {
	if c.state != "" {
		return s.Mode()
	}
	st, err := control.Client{Socket: daemon.Socket(s.Config.RuntimeDir)}.Health(ctx, nil)
	if err != nil {
		return s.Mode()
	}
	daemon.Tell(f, st)
	return st.Daemon.Mode
}
