package main

import (
	"context"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
)

// A ground is a node on which others do svcproxy's work, and the plan of what is to
// do there.
//
// They find what svcproxy finds there, its rules and its empty sets, and everything
// is removed as svcproxy removes it. More than half of a real server's cost in the
// kernel is pcpu_alloc, the memory for its per-CPU counters. Its search time
// depends on earlier allocations: the same 10,000 real servers took 76 to 116
// million instructions (Linux 6.1).
type ground struct {
	kernel *host.Kernel
	plan   kernel.Plan
}

// empty is a ground with nothing on it: the plan is that of a whole load.
func (p *pass) empty() (*ground, error) {
	k, err := openHost(p.wire, new(ipvs.Mode), nil)
	if err != nil {
		return nil, err
	}
	g := &ground{kernel: k}
	if err := g.toward(p, whole); err != nil {
		k.Close()
		return nil, err
	}
	return g, nil
}

// lay is a ground with all but what there is of each service.
func (p *pass) lay() (*ground, error) {
	g, err := p.empty()
	if err != nil {
		return nil, err
	}
	err = g.toward(p, func(s kernel.State) kernel.State {
		s.Entries, s.Virtuals, s.Reals, s.Addrs, s.Routes = kernel.Entries{}, nil, kernel.Reals{}, nil, nil
		return s
	})
	if err == nil {
		err = g.kernel.Apply(context.Background(), g.plan)
	}
	if err == nil {
		err = g.toward(p, whole)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func whole(s kernel.State) kernel.State { return s }

// toward plans the way to a part of what the pass's table wants.
func (g *ground) toward(p *pass, part func(kernel.State) kernel.State) error {
	have, err := g.kernel.Read(context.Background())
	if err == nil {
		g.plan = plan.Once(part(wanted(table(p.size, p.family), have.Node)), have)
	}
	return err
}

// clean removes all objects of svcproxy's kind, whichever program made them.
func (g *ground) clean() error {
	have, err := g.kernel.Read(context.Background())
	if err != nil {
		return err
	}
	return g.kernel.Apply(context.Background(), plan.Once(kernel.State{}, have))
}

func (g *ground) close() { g.kernel.Close() }
