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

// caughtSignals has a channel for each signal: one that comes while the same is acted upon is kept, whatever else comes.
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
			d.log.Error("reload", "err", err)
		} else if done.Err() != nil {
			d.log.Error("reload: not all of it is served", "refused", len(done.Rejected), "failed", len(done.Failed), "conflicts", len(done.Conflicts))
		}
	}
}

// watchNode asks for a full check when the node's addresses change. While the kernel cannot be watched, it asks for one
// every 10 s.
func (d *daemon) watchNode(ctx context.Context) {
	const what = "addresses of this node"
	for {
		changes, err := d.kernel.Subscribe()
		if err == nil {
			d.unwatched(what, nil)
			err = changes.Watch(ctx, func() { d.proxy.Check(proxy.CauseNode) })
		}
		if err == nil {
			return
		}
		d.unwatched(what, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(file.RewatchAfter):
			d.proxy.Check(proxy.CauseNode)
		}
	}
}
