package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/relay"
	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/proxy/mode"
	"github.com/svcproxy/svcproxy/proxy/mode/ipvs"
	"github.com/svcproxy/svcproxy/sources"
)

// hand is a source that emits what it is handed.
type hand struct{ tables chan sources.Table }

func (h hand) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		select {
		case t := <-h.tables:
			emit(t, nil)
		case <-ctx.Done():
			return nil
		}
	}
}

// loop is the whole way of a table, from the moment a source emits it to the
// kernel's last acknowledgement, in the real loop.
func (b *bench) loop(p *pass) error { return p.loop(new(ipvs.Mode), nil, p.drive) }

// loop has a function drive the real loop in a mode.
func (p *pass) loop(m mode.Mode, r *relay.Relay, drive func(context.Context, *proxy.Proxy, hand, <-chan *proxy.Snapshot) error) error {
	k, err := openHost(p.wire, m, r)
	if err != nil {
		return err
	}
	defer k.Close()
	h := hand{make(chan sources.Table)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	synced := make(chan *proxy.Snapshot, 1)
	var frontends frontend.Cache
	loop := proxy.New(proxy.Options{
		Kernel: k, Log: slog.New(slog.DiscardHandler), Feeds: []proxy.Feed{{Name: "hand", Source: h}},
		Rules: func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State) {
			c := ruled()
			c.Hold, c.Occupied, c.Native = t.Keeps, occupied, writesNFT(m)
			f := frontends.List(t, n, c.Frontends)
			return f, m.State(f, c)
		},
		SyncPeriod: time.Hour,
		OnSync:     func(s *proxy.Snapshot) { synced <- s },
	})
	driven := make(chan error, 1)
	go func() {
		defer cancel()
		driven <- drive(ctx, loop, h, synced)
	}()
	// It executes iptables, so it runs on the thread that is in the namespace.
	err = loop.Run(ctx)
	cancel()
	return errors.Join(err, <-driven, (&ground{kernel: k}).clean())
}

// What a change costs whatever the table: one endpoint changed where there are few.
const (
	few      = 10
	oneOfFew = "table to kernel, one endpoint of 10 services"
)

// hands are what hands a table to a loop, and what asks it for a check. Both wait for
// the sync that follows; a large load is several.
func hands(ctx context.Context, loop *proxy.Proxy, h hand, synced <-chan *proxy.Snapshot) (emit func(sources.Table) func() error, check func() error) {
	outcome := func() error {
		for {
			select {
			case s := <-synced:
				if s.Report.Err != nil || s.Report.Left == 0 {
					return s.Report.Err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	emit = func(t sources.Table) func() error {
		return func() error { h.tables <- t; return outcome() }
	}
	return emit, func() error { loop.Check(proxy.CauseAsked); return outcome() }
}

// drive hands tables to a loop, and waits for each to be in the kernel.
func (p *pass) drive(ctx context.Context, loop *proxy.Proxy, h hand, synced <-chan *proxy.Snapshot) error {
	emit, check := hands(ctx, loop, h, synced)
	t := table(p.size, p.family)
	if err := p.lap(allNew, emit(t)); err != nil {
		return err
	}
	if err := check(); err != nil { // iptables-save runs for the last time
		return err
	}
	small := table(size{few, p.size.endpoints}, p.family)
	for _, step := range []struct {
		row string
		do  func() error
	}{
		{"idle check", check},
		// It takes memory from the system that the later ones have.
		{"table to kernel, first one endpoint", emit(oneWeighed(t, 3))},
		{oneEndpoint, emit(oneWeighed(t, 2))},
		{"table to kernel, 1 %", emit(weighed(oneWeighed(t, 2), 100, 3))},
		{"table to kernel, all weights", emit(weighed(t, 1, 4))},
		{"table to kernel, all but 10 services gone", emit(small)},
		{oneOfFew, emit(oneWeighed(small, 2))},
	} {
		if err := p.lap(step.row, step.do); err != nil {
			return err
		}
	}
	return nil
}
