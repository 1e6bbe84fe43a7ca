package daemon

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/explain"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// ErrNotExplained is the error about packets in mode userspace.
var ErrNotExplained = errors.New("in mode userspace no packet can be explained: connections end at svcproxy")

// explain answers a user who may not read the kernel.
func (d *daemon) explain(ctx context.Context, q explain.Question) (explain.Result, error) {
	if d.listeners != nil {
		return nil, ErrNotExplained
	}
	f := explain.Facts{Fronts: d.console.frontends()}
	Tell(&f, d.console.reader.Checks(ctx, nil))
	var err error
	if f.Kernel, err = d.readKernel(ctx); err != nil {
		return nil, err
	}
	if f.Kernel.Firewall, err = host.Firewall(ctx, d.setup().Config.Names()); err != nil {
		return nil, err
	}
	paths, err := host.OpenPaths()
	if err != nil {
		return nil, err
	}
	defer paths.Close()
	f.Network, f.Order, f.Connection = paths, host.RealOrder, host.Connection
	return explain.Ask(f, q)
}

// Tell adds what a status knows: what health checks and orders made of endpoints, and which VIPs other hosts have.
func Tell(f *explain.Facts, st status.Status) {
	f.Health, f.Elsewhere = map[explain.Endpoint]explain.Health{}, map[netip.Addr]string{}
	for i := range st.Services {
		for _, e := range st.Services[i].Endpoints {
			if proto, err := kernel.ParseProto(e.Protocol); err == nil && e.Health != nil {
				f.Health[explain.Endpoint{Proto: proto, Addr: e.Address}] = explain.Health{Text: e.Health.Text,
					Up: e.Health.Last != nil && e.Health.Last.Good, Down: e.Health.Down()}
			}
		}
	}
	for _, c := range st.Conditions {
		if at, err := netip.ParseAddrPort(c.Subject); err == nil && c.Kind == condition.Silent {
			e := explain.Endpoint{Proto: kernel.TCP, Addr: at}
			h := f.Health[e]
			h.Silent = c.Text
			f.Health[e] = h
		}
	}
	for _, a := range st.Announced {
		if a.Moved && a.Link == "" {
			f.Elsewhere[a.Address] = "keepalived has not given it to this node"
		}
	}
	for _, c := range st.Conflicts {
		if by, taken := strings.CutPrefix(c.Text, c.Address.Addr().String()+" is not bound: "); taken {
			f.Elsewhere[c.Address.Addr()] = by
		}
	}
}
