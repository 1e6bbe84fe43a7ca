package commands

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/screen"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// nodeCommand drains the node, ends that, or shows it.
type nodeCommand struct {
	remote
	output
	reason string
	wait   time.Duration // 0 = do not wait
}

// nodeVerbs are the words that the command node takes.
var nodeVerbs = []string{"drain", "undrain", "status"}

// Node is the command node.
func Node(e *Env) cli.Command {
	c := &nodeCommand{remote: remote{e}}
	return cli.Command{
		Name: "node", Args: "VERB", Short: "make load balancers in front leave this node, or return", Values: nodeVerbs,
		Long: `VERB is drain, undrain or status.

While the node is drained, /healthz and health check node ports answer 503. Connections
that still arrive are served. Announced VIPs get announce.drainMetric, and are withdrawn
after announce.drainTime. The drain survives restarts and ends with undrain.
drain --wait waits until the node has no open connections of TCP. It is an error
with connection sync, where the node also has those of others. Where keepalived moves the
VIPs, drain first says what becomes of open connections, and --wait waits until the VIPs
have left this node.`,
		Examples: []string{"svcproxy node drain --wait", "svcproxy node undrain"},
		Exits: []cli.Exit{
			{Code: cli.Failed, When: "with --wait: connections or VIPs are left"},
			noDaemon,
		},
		Flags: c.flags, Common: configFlag, Run: c.run,
	}
}

func (c *nodeCommand) flags(fs *pflag.FlagSet) {
	c.flag(fs)
	fs.StringVar(&c.reason, "reason", "", "why, for status and events; a `TEXT` of at most 200 bytes")
	waitFlag(fs, &c.wait)
}

func (c *nodeCommand) run(ctx context.Context, args []string) error {
	if err := c.valid(); err != nil {
		return err
	}
	if len(args) != 1 {
		return cli.Errorf(cli.Usage, "", "node wants one of drain, undrain and status, have %s", cli.Given(args))
	}
	verb := args[0]
	switch {
	case verb == "status" && c.reason != "":
		return cli.Errorf(cli.Usage, "", "node status has no --reason")
	case verb != "drain" && c.wait != 0:
		return cli.Errorf(cli.Usage, "", "node %s has no --wait", verb)
	case verb == "status":
		return c.show(ctx, nil)
	case verb != "drain" && verb != "undrain":
		return cli.Errorf(cli.Usage, "", "node wants one of drain, undrain and status, have %q", verb)
	}
	if verb == "drain" {
		c.sayHandover(ctx)
	}
	if err := c.client().DrainNode(ctx, verb == "drain", c.reason); err != nil {
		return err
	}
	var left *leftover
	if c.wait > 0 {
		var err error
		if left, err = c.waitFor(ctx, c.wait, c.all); err != nil {
			return err
		}
	}
	if err := c.show(ctx, left); err != nil {
		return err
	}
	return left.err()
}

// sayHandover says what becomes of open connections. A daemon that does not answer says so to the order itself.
func (c *nodeCommand) sayHandover(ctx context.Context) {
	st, err := c.client().Status(ctx, false)
	if err != nil {
		return
	}
	for _, line := range st.Handover() {
		fmt.Fprintf(c.Err, "svcproxy: %s\n", line)
	}
}

// all counts the connections of the node. Where keepalived moves the VIPs, it counts those that are here: entries of
// clients that the other node has stay in IPVS until they time out.
func (c *nodeCommand) all(ctx context.Context) (n conns, err error) {
	st, err := c.client().Status(ctx, false)
	if err == nil && st.VIPsMove() {
		return conns{Active: status.Unknown, Closing: status.Unknown, moves: true, VIPs: st.VIPsHere()}, nil
	}
	if err == nil {
		err = counted(st)
	}
	if err == nil && slices.ContainsFunc(st.ConnSync, func(s status.ConnSync) bool {
		return s.Role == kernel.SyncBackup.String()
	}) {
		err = cli.Errorf(cli.Failed, "the drain goes on, and so do connections, at the node that has the VIPs now",
			"--wait is not possible: by connection sync this node has those of other nodes, too")
	}
	n.add(st.Totals.Active, st.Totals.Inactive)
	return n, err
}

// nodeStatus is the answer in JSON. Fields are only ever added.
type nodeStatus struct {
	Node     string            `json:"node"`
	Drain    *status.NodeDrain `json:"drain,omitempty"`
	Active   status.Count      `json:"active,omitzero"` // absent, like inactive, if they are not counted
	Inactive status.Count      `json:"inactive,omitzero"`
	*leftover
}

// show prints whether the node is drained, and its connections.
func (c *nodeCommand) show(ctx context.Context, left *leftover) error {
	st, err := c.client().Status(ctx, false)
	if err != nil {
		return err
	}
	if c.output == "json" {
		if st.Uncounted {
			st.Totals.Active, st.Totals.Inactive = status.Unknown, status.Unknown
		}
		return c.encode(nodeStatus{st.Daemon.Node, st.Daemon.Drain, st.Totals.Active, st.Totals.Inactive, left})
	}
	state := "not drained"
	if d := st.Daemon.Drain; d != nil {
		state = fmt.Sprintf("%s (%s ago)", d, screen.Age(st.Time.Sub(d.Since)))
	}
	conns := fmt.Sprintf("%d active, %d inactive", st.Totals.Active, st.Totals.Inactive)
	if st.Uncounted {
		conns = "not counted in mode " + st.Daemon.Mode
	}
	_, err = fmt.Fprintf(c.Out, "%s: %s\nconnections: %s\n", st.Daemon.Node, state, conns)
	return err
}
