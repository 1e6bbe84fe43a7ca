package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/svcproxy/svcproxy/proxy"
)

// catchSignals catches the signals that do not end the process. Until it is called,
// each of them would end it.
func catchSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	return signals
}

// handle acts on signals until ctx ends.
func (d *daemon) handle(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP:
				// Each refusal or failure is logged where it is found; this line sums up.
				if done, err := d.console.reload(ctx); err != nil {
					d.log.Error("reload", "err", err)
				} else if done.Err() != nil {
					d.log.Error("reload: not all of it is served", "refused", len(done.Rejected), "failed", len(done.Failed), "conflicts", len(done.Conflicts))
				}
			case syscall.SIGUSR1:
				d.proxy.DumpState()
			case syscall.SIGUSR2:
				d.log.Toggle()
			}
		}
	}
}

// watchNode asks for a full check when the node's addresses change. Where the kernel
// cannot be watched, the check of each sync period finds the changes.
func (d *daemon) watchNode(ctx context.Context) {
	changes, err := d.kernel.Subscribe()
	if err == nil {
		err = changes.Watch(ctx, func() { d.proxy.Check(proxy.CauseNode) })
	}
	if err != nil {
		d.log.Warn("cannot watch the node's addresses: their changes are noticed at full checks only", "err", err)
	}
}
