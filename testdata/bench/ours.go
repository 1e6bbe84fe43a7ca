package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/host"
	"github.com/svcproxy/svcproxy/kernel/ipset"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/link"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy/config"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	modeipvs "github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

// partOf names the part of a load that an op belongs to.
func partOf(o kernel.Op) string {
	switch o.Object.(type) {
	case kernel.Virtual, kernel.Real:
		return "ipvs"
	case kernel.Set, kernel.Entry, kernel.Swap:
		return "ipset"
	case kernel.Addr, kernel.Route, kernel.Link, kernel.Neighbor:
		return "vips"
	case kernel.Chain:
		return "iptables"
	}
	return "sysctls"
}

// runs are the stretches of ops that belong to one part.
func runs(ops []kernel.Op) [][]kernel.Op {
	var all [][]kernel.Op
	for start, i := 0, 1; i <= len(ops); i++ {
		if i == len(ops) || partOf(ops[i]) != partOf(ops[start]) {
			all = append(all, ops[start:i])
			start = i
		}
	}
	return all
}

// nftRules is a mode whose rules are of nftables.
type nftRules struct{ mode.Mode }

func writesNFT(m mode.Mode) bool {
	_, ok := m.(nftRules)
	return ok
}

// openHost opens the kernel for a mode. r is the relay of mode userspace, nil for the others.
func openHost(w *wire, m mode.Mode, r *relay.Relay) (*host.Kernel, error) {
	dir, err := os.MkdirTemp("", "bench-state-")
	if err != nil {
		return nil, err
	}
	return host.Open(context.Background(), host.Options{
		Names: kernel.DefaultNames, Dialer: w.dialer(), Sysctls: m.Sysctls(), Needs: m.Needs(), StateDir: dir, Relay: r,
		Native: writesNFT(m),
	})
}

// ours is svcproxy's parts one by one: a load, readings, changes, and the removal
// of everything.
func (b *bench) ours(p *pass) error {
	k, err := openHost(p.wire, new(modeipvs.Mode), nil)
	if err != nil {
		return err
	}
	defer k.Close()
	ctx := context.Background()
	have, err := k.Read(ctx)
	if err != nil {
		return err
	}
	t := table(p.size, p.family)
	var todo kernel.Plan
	want := wanted(t, have.Node)
	if err := p.lap("diff, all new", func() error { todo = plan.Once(want, have); return nil }); err != nil {
		return err
	}
	if err := p.load(k, todo); err != nil {
		return err
	}
	if have, err = k.Read(ctx); err != nil { // iptables-save runs for the last time
		return err
	}
	if err := p.read(); err != nil {
		return err
	}
	if err := p.lap("read everything", func() error { have, err = k.Read(ctx); return err }); err != nil {
		return err
	}
	if err := p.parts(k, have); err != nil {
		return err
	}
	if have, err = p.changes(k, t, have); err != nil {
		return err
	}
	return p.lap("cleanup", func() error { return k.Apply(ctx, plan.Once(kernel.State{}, have)) })
}

// load carries a plan out, each part of it measured.
func (p *pass) load(k *host.Kernel, todo kernel.Plan) error {
	if p.counting {
		p.bench.recorded = nil
	}
	first := len(p.samples)
	for _, ops := range runs(todo.Ops) {
		s := stretch{part: partOf(ops[0])}
		if p.counting {
			p.wire.tape = &s.sent
		}
		err := p.lap("load "+s.part, func() error {
			return k.Apply(context.Background(), kernel.Plan{Ops: ops})
		})
		p.wire.tape = nil
		if err != nil {
			return err
		}
		if p.counting {
			p.bench.recorded = append(p.bench.recorded, s)
		}
	}
	p.samples = merged(p.samples, first)
	p.samples = append(p.samples, p.total(p.samples[first:]))
	return nil
}

// merged adds up the samples from an index on that are of one row.
func merged(samples []sample, first int) []sample {
	at := map[string]int{}
	all := samples[:first:first]
	for _, s := range samples[first:] {
		i, ok := at[s.By+s.Row]
		if !ok {
			at[s.By+s.Row] = len(all)
			all = append(all, s)
			continue
		}
		all[i].add(s)
	}
	return all
}

func (s *sample) add(o sample) {
	s.Nanos += o.Nanos
	s.Kernel += o.Kernel
	s.Allocs += o.Allocs
	s.Bytes += o.Bytes
	s.Syscalls += o.Syscalls
	s.Messages += o.Messages
	s.Execs += o.Execs
}

// total is the load without what is made by executing iptables, and without
// sysctls, which are files.
func (p *pass) total(loads []sample) sample {
	x := p.sample("load", loads[0].By)
	for _, s := range loads {
		switch strings.TrimPrefix(s.Row, "load ") {
		case "ipvs", "ipset", "vips":
			x.add(s)
		}
	}
	return x
}

// read reads each part through its own adapter.
func (p *pass) read() error {
	d := p.wire.dialer()
	table, err := ipvs.Open(d)
	if err != nil {
		return err
	}
	defer table.Close()
	sets, err := ipset.Open(d)
	if err != nil {
		return err
	}
	defer sets.Close()
	links, err := link.Open(d)
	if err != nil {
		return err
	}
	defer links.Close()
	return errors.Join(
		p.lap("read ipvs", func() error {
			r, err := table.Read()
			if err == nil && len(r.Reals) != p.size.services*p.size.endpoints {
				err = fmt.Errorf("read %d real servers", len(r.Reals))
			}
			return err
		}),
		p.lap("read ipset", func() error { _, _, err := sets.Read(kernel.DefaultNames); return err }),
		p.lap("read vips", func() error {
			_, addrs, _, err := links.Read(kernel.DefaultNames)
			if err != nil {
				return err
			}
			routes, _, err := links.ReadRoutes()
			if err == nil && len(addrs)+len(routes) < p.size.services {
				err = fmt.Errorf("read %d addresses and %d routes", len(addrs), len(routes))
			}
			return err
		}),
	)
}

// parts are the checks of one period, each of a part of the kernel, that find nothing.
func (p *pass) parts(k *host.Kernel, have kernel.Observed) error {
	first := len(p.samples)
	for _, part := range plan.Shards(&have.State, checksInAPeriod) {
		err := p.lap("check of parts: the dearest", func() error {
			same, err := k.Verify(context.Background(), &have, part)
			if err == nil && !same {
				err = errors.New("something is said to have changed")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	laps := p.samples[first:]
	all := p.sample("check of parts: all", p.by)
	for _, s := range laps {
		all.add(s)
	}
	dearest := slices.MaxFunc(laps, func(a, b sample) int { return cmp.Compare(a.Nanos, b.Nanos) })
	p.samples = append(p.samples[:first], dearest, all)
	return nil
}

// checksInAPeriod is how many checks there is room for in a period, by default.
var checksInAPeriod = int(config.Default().IPVS.SyncPeriod / max(config.Default().IPVS.MinSyncPeriod, time.Second))

// changes are what the loop does when a table has come, piece by piece.
func (p *pass) changes(k *host.Kernel, t sources.Table, have kernel.Observed) (kernel.Observed, error) {
	var frontends frontend.Cache
	var m modeipvs.Mode
	state := func(t sources.Merged) kernel.State {
		return m.State(frontends.List(t, have.Node, ruled().Frontends), ruled())
	}
	var merger sources.Merger
	merge := func(t sources.Table) sources.Merged {
		return merger.Merge(sources.HostFacts{}, nil, t, sources.Table{})
	}
	state(merge(t))
	for _, c := range []struct {
		row string
		now sources.Table
	}{
		{"idle", t},
		{"one endpoint", oneWeighed(t, 2)},
		{"1 % of services", weighed(oneWeighed(t, 2), 100, 3)},
		{"all weights", weighed(t, 1, 4)},
	} {
		var merged sources.Merged
		var want kernel.State
		var todo kernel.Plan
		var ok bool
		err := errors.Join(
			p.lap(c.row+": merge", func() error { merged = merge(c.now); return nil }),
			p.lap(c.row+": rules", func() error { want = state(merged); return nil }),
			p.lap(c.row+": diff", func() error { todo = plan.Once(want, have); return nil }),
		)
		if err == nil && len(todo.Ops) > 0 {
			err = errors.Join(
				p.lap(c.row+": kernel", func() error { return k.Apply(context.Background(), todo) }),
				p.lap(c.row+": settle", func() error { have, ok = plan.Applied(have, want, todo); return nil }),
			)
			if err == nil && !ok {
				err = fmt.Errorf("%s: the reading cannot be settled", c.row)
			}
		}
		if err == nil && c.row == "idle" && len(todo.Ops) > 0 {
			err = fmt.Errorf("an idle check found %d things to do", len(todo.Ops))
		}
		if err != nil {
			return have, err
		}
	}
	return have, nil
}
