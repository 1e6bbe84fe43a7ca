package commands

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/control"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// waitLimit is how long --wait waits without a time.
const waitLimit = "5m"

// waitFlag adds --wait[=TIME].
func waitFlag(fs *pflag.FlagSet, wait *time.Duration) {
	fs.DurationVar(wait, "wait", 0, "wait until no connection is open, at most this `TIME`")
	fs.Lookup("wait").NoOptDefVal = waitLimit
}

// conns are connections as IPVS counts them. Only Active ones, which are established or begin, are waited for. IPVS
// keeps a TCP connection that one side has closed for 2 minutes (TIME_WAIT), and counts all flows of UDP with those.
type conns struct {
	Active  status.Count `json:"connectionsLeft,omitzero"` // absent, like the other, if VIPs are waited for
	Closing status.Count `json:"connectionsClosing,omitzero"`
	// moves: keepalived moves VIPs, and only those that are still here are waited for.
	moves bool
	VIPs  int `json:"vipsHere,omitempty"`
}

// over reports whether there is nothing to wait for.
func (c conns) over() bool { return c.VIPs == 0 && (c.moves || c.Active == 0) }

func (c *conns) add(active, inactive status.Count) {
	c.Active += active
	c.Closing += inactive
}

func (c conns) String() string {
	if c.moves {
		return fmt.Sprintf("VIPs here: %d", c.VIPs)
	}
	return fmt.Sprintf("connections: %d active, %d closing", c.Active, c.Closing)
}

// leftover is what is left after waiting; nil if the command did not wait.
type leftover struct {
	conns
	Waited float64 `json:"waitedSeconds"`
}

// err is an error if connections or VIPs are left.
func (l *leftover) err() error {
	switch {
	case l == nil || l.over():
		return nil
	case l.moves:
		return cli.Errorf(cli.Failed, "does keepalived run on the other node, and is that node not drained?",
			"no other node has taken the VIPs after %s: %s", seconds(l.Waited), l.conns)
	}
	return cli.Errorf(cli.Failed, "the drain goes on", "connections are left after %s: %d active, %d closing",
		seconds(l.Waited), l.Active, l.Closing)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// waitPeriod is how often connections are counted.
const waitPeriod = time.Second

// waitFor waits until nothing is left, and prints what is. If ctx ends, that is an error.
func (r remote) waitFor(ctx context.Context, limit time.Duration,
	left func(context.Context) (conns, error)) (*leftover, error) {
	began, said := time.Now(), time.Time{}
	tick := time.NewTicker(waitPeriod)
	defer tick.Stop()
	for {
		n, err := left(ctx)
		if ctx.Err() != nil {
			return nil, cli.Errorf(cli.Failed, "the drain goes on", "interrupted: connections may be left")
		}
		if err != nil {
			return nil, err
		}
		waited := time.Since(began)
		if n.over() || waited >= limit {
			return &leftover{n, waited.Seconds()}, nil
		}
		if time.Since(said) >= progressEvery {
			said = time.Now()
			fmt.Fprintf(r.Err, "svcproxy: waiting for %v: %s\n", waited.Round(time.Second), n)
		}
		select {
		case <-tick.C:
		case <-time.After(limit - waited):
		case <-ctx.Done():
		}
	}
}

// counted returns an error if the daemon's mode counts no connections: nothing then tells when they end.
func counted(st status.Status) error {
	if !st.Uncounted {
		return nil
	}
	return cli.Errorf(cli.Failed, "the drain goes on: conntrack -L lists the connections",
		"--wait is not possible: mode %s does not count connections", st.Daemon.Mode)
}

// maxNamed bounds the services that are asked for by name.
const maxNamed = 100

// connections returns a function that counts the connections of some endpoints.
func (r remote) connections(of []control.Place) func(context.Context) (conns, error) {
	type place struct {
		service, protocol string
		addr              netip.AddrPort
	}
	wanted, services := map[place]bool{}, map[string]bool{}
	for _, p := range of {
		wanted[place{p.Service, p.Protocol, p.Address}] = true
		services[p.Service] = true
	}
	return func(ctx context.Context) (n conns, err error) {
		if len(wanted) == 0 {
			return n, nil
		}
		var st status.Status
		if len(services) <= maxNamed {
			st, err = r.client().Detail(ctx, slices.Sorted(maps.Keys(services)))
		} else {
			st, err = r.client().Status(ctx, true)
		}
		if err == nil {
			err = counted(st)
		}
		for i := range st.Services {
			s := &st.Services[i]
			for j := range s.Endpoints {
				if e := &s.Endpoints[j]; wanted[place{s.Name, e.Protocol, e.Address}] {
					n.add(e.Active, e.Inactive)
				}
			}
		}
		return n, err
	}
}
