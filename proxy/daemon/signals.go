package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/proxy"
	"github.com/svcproxy/svcproxy/sources/file"
)

// catchSignals catches the signals that do not end the process. Until it is called,
// each of them would end it.
func catchSignals() caughtSignals {
	s := caughtSignals{reload: make(chan os.Signal, 1), dump: make(chan os.Signal, 1), debug: make(chan os.Signal, 1)}
	signal.Notify(s.reload, syscall.SIGHUP)
	signal.Notify(s.dump, syscall.SIGUSR1)
	signal.Notify(s.debug, syscall.SIGUSR2)
	return s
}

// caughtSignals has a channel for each signal: one that comes while the same is acted upon is kept, whatever
// else comes.
type caughtSignals struct {
	reload, dump, debug chan os.Signal
}

// handle acts on signals until ctx ends. A reload may take a minute, and others do not wait for it.
func (d *daemon) handle(ctx context.Context, signals caughtSignals) {
	go d.handleReloads(ctx, signals.reload)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals.dump:
			d.proxy.DumpState()
		case <-signals.debug:
			d.log.Toggle()
		}
	}
}

func (d *daemon) handleReloads(ctx context.Context, asked <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		// Each refusal or failure is logged where it is found; this line sums up.
		if done, err := d.console.reload(ctx); err != nil {
			d.log.Error("reload failed", "err", err)
		} else if done.Err() != nil {
			d.log.Error("reload: not all of it is served", "refused", len(done.Rejected), "failed", len(done.Failed),
				"conflicts", len(done.Conflicts))
		}
	}
}

// watchNode asks for a full check when the node's addresses change.
func (d *daemon) watchNode(ctx context.Context) {
	check := func() { d.proxy.Check(proxy.CauseNode) }
	d.watch(ctx, "addresses of this node", check, func(ready func()) error {
		changes, err := d.kernel.Subscribe()
		if err != nil {
			return err
		}
		ready()
		return changes.Watch(ctx, check)
	})
}

// watchRules asks for a check of the rules when another program changes rules of nftables.
func (d *daemon) watchRules(ctx context.Context) {
	d.watch(ctx, "rules of nftables", func() { d.proxy.RulesChanged(nil) }, func(ready func()) error {
		return d.kernel.WatchRules(ctx, ready, d.proxy.RulesChanged)
	})
}

// watch runs what tells of changes until ctx ends. While that fails, it asks for a check every 10 s.
func (d *daemon) watch(ctx context.Context, what string, check func(), run func(ready func()) error) {
	for {
		err := run(func() { d.unwatched(what, nil) })
		if err == nil {
			return
		}
		d.unwatched(what, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(file.RewatchAfter):
			check()
		}
	}
}
