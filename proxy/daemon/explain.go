package daemon

import (
	"context"
	"errors"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/proxy/answers"
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
	f := explain.Facts{Fronts: d.console.frontends(), Health: HealthOf(d.console.reader.Checks(ctx, nil))}
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

// HealthOf returns what health checks and orders made of endpoints, and which of them do not answer.
func HealthOf(st status.Status) map[explain.Endpoint]explain.Health {
	all := map[explain.Endpoint]explain.Health{}
	for i := range st.Services {
		for _, e := range st.Services[i].Endpoints {
			if proto, err := kernel.ParseProto(e.Protocol); err == nil && e.Health != nil {
				all[explain.Endpoint{Proto: proto, Addr: e.Address}] = explain.Health{Text: e.Health.Text, Down: e.Health.Down()}
			}
		}
	}
	for _, c := range st.Conditions {
		if c.Kind == condition.Silent {
			e := explain.Endpoint{Proto: kernel.TCP, Addr: answers.EndpointOf(c.Subject)}
			h := all[e]
			h.Silent = c.Text
			all[e] = h
		}
	}
	return all
}
