package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/svcproxy/svcproxy/proxy"
)

// readyLimit is how long READY waits for the first sync with all sources. Without it
// an API server that is down would make systemd end a process that could serve from
// files. STATUS names what is missing.
const readyLimit = 30 * time.Second

// statusPause is the shortest time between two STATUS messages.
const statusPause = time.Second

// observedLoop is the part of *proxy.Proxy that systemd is told about.
type observedLoop interface {
	Snapshot() *proxy.Snapshot
	Sources() []proxy.SourceState
	// Running is the sync in progress, nil between two.
	Running() *proxy.Running
	// Alive reports whether the loop answers before ctx ends.
	Alive(ctx context.Context) bool
}

// notifier sends the state of the process to systemd: READY, STATUS, RELOADING,
// STOPPING, and WATCHDOG while the loop answers and the health checker works. READY is not sent before the node is
// served. Without systemd it sends nothing.
type notifier struct {
	loop observedLoop
	// probes reports whether health checks are made when they are due; nil is always.
	probes func(time.Time) bool
	// wrong says what is wrong apart from the loop and its sources; nil is nothing.
	wrong func() []string
	log   *slog.Logger
	// send sends one message of sd_notify(3).
	send func(state string) error
	// watchdog is how long systemd waits for a WATCHDOG message; 0 is for ever.
	watchdog time.Duration
	changed  chan struct{} // holds one token while something has changed

	mu      sync.Mutex // also keeps messages in order
	ready   bool
	reloads int  // in progress
	failed  bool // the last message could not be sent
}

func newNotifier(loop observedLoop, log *slog.Logger, send func(string) error, watchdog time.Duration) *notifier {
	return &notifier{loop: loop, log: log, send: send, watchdog: watchdog, changed: make(chan struct{}, 1)}
}

// systemdNotifier sends to NOTIFY_SOCKET and follows WATCHDOG_USEC, as systemd sets them.
func systemdNotifier(loop observedLoop, log *slog.Logger) *notifier {
	watchdog, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("cannot read the period of systemd's watchdog", "err", err)
	}
	return newNotifier(loop, log, func(state string) error {
		_, err := sd.SdNotify(false, state)
		return err
	}, watchdog)
}

// update tells the notifier that the loop or a source has changed. It returns at once
// and may be called from any goroutine.
func (n *notifier) update() {
	select {
	case n.changed <- struct{}{}:
	default: // one is pending
	}
}

// reloading sends that a reload has begun. The returned function sends that it has
// ended, successfully or not.
func (n *notifier) reloading() (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reloads++; n.reloads == 1 && n.ready {
		n.message(sd.SdNotifyReloading)
	}
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.reloads--; n.reloads == 0 && n.ready {
			n.message(sd.SdNotifyReady + "\n" + n.status())
		}
	})
}

// run sends messages until ctx ends.
func (n *notifier) run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	if n.watchdog > 0 {
		watching.Go(func() { n.watch(ctx) })
	}
	deadline := time.NewTimer(readyLimit)
	defer deadline.Stop()
	late := false
	last := ""
	for {
		last = n.report(last, late)
		select {
		case <-ctx.Done():
			n.mu.Lock()
			defer n.mu.Unlock()
			n.message(sd.SdNotifyStopping)
			return
		case <-deadline.C:
			late = true
		case <-n.poll():
		case <-n.changed:
			if !n.isReady() {
				continue // READY is not delayed
			}
			select { // collect the changes of this pause in one message
			case <-ctx.Done():
			case <-time.After(statusPause):
			}
		}
	}
}

// poll fires when STATUS should be renewed without a change: during a start it shows
// the progress. It never fires afterwards.
func (n *notifier) poll() <-chan time.Time {
	if n.isReady() {
		return nil
	}
	return time.After(statusPause)
}

func (n *notifier) isReady() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

// report sends READY once the first sync has succeeded or the limit has passed, and
// STATUS when it differs from the last one. It returns the status.
func (n *notifier) report(last string, late bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	status := n.status()
	switch {
	case !n.ready && (late || firstSynced(n.loop)):
		n.ready = true
		n.message(sd.SdNotifyReady + "\n" + status)
	case status != last:
		n.message(status)
	}
	return status
}

// firstSynced reports whether the node is served: a sync with the tables of all sources
// has succeeded, and every VIP was probed for on the link.
func firstSynced(l observedLoop) bool {
	now := l.Snapshot()
	return now != nil && now.Report.Err == nil && now.Report.Left == 0 && len(now.Report.Waiting) == 0 &&
		len(now.Report.Plan.Probes) == 0
}

func (n *notifier) status() string {
	var wrong []string
	if n.wrong != nil {
		wrong = n.wrong()
	}
	return "STATUS=" + statusText(n.loop.Snapshot(), n.loop.Running(), n.loop.Sources(), wrong)
}

// watch sends WATCHDOG each time the loop answers. If it or the health checker hangs, systemd ends the
// process and starts another. The loop is asked three times per watchdog interval. So
// the reason is in the log before systemd acts, and the loop has a third of the interval
// left to answer.
func (n *notifier) watch(ctx context.Context) {
	interval := n.watchdog / 3
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.loop.Running().Long() {
			n.update() // a long sync sends no other update
		}
		asking, cancel := context.WithTimeout(ctx, interval)
		alive := n.loop.Alive(asking)
		cancel()
		switch {
		case alive && n.probes != nil && !n.probes(time.Now()):
			n.log.Error("health checks are overdue: systemd restarts svcproxy if this lasts", "after", interval)
		case alive:
			n.mu.Lock()
			n.message(sd.SdNotifyWatchdog)
			n.mu.Unlock()
		case ctx.Err() == nil:
			n.log.Error("the main loop does not answer: systemd restarts svcproxy if this lasts", "after", interval)
		}
	}
}

// message sends under the lock, so that messages keep their order. A failure is logged
// once until sending succeeds again.
func (n *notifier) message(state string) {
	err := n.send(state)
	if err != nil && !n.failed {
		n.log.Warn("cannot notify systemd", "err", err)
	}
	n.failed = err != nil
}
