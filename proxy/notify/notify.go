// Package notify tells systemd how svcproxy is: READY, STATUS, RELOADING,
// STOPPING, and WATCHDOG while the loop is alive.
//
// What it says is what is so: READY is not said of a node that is not served
// yet, and WATCHDOG is no timer's, but the loop's own answer. Where systemd did
// not start the process there is nobody to tell, and nothing is said. It refuses
// to decide anything: whoever has to act on what it says is systemd.
package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/svcproxy/svcproxy/proxy"
)

// patience is how long READY waits for a first sync with all sources: an API
// server that is down must not make systemd end what could serve from files.
// STATUS says what is missing.
const patience = 30 * time.Second

// pause is the shortest time between two STATUS.
const pause = time.Second

// Loop is what there is to tell about: a *proxy.Proxy.
type Loop interface {
	Snapshot() *proxy.Snapshot
	Sources() []proxy.SourceState
	// Running is the sync in progress, nil between two.
	Running() *proxy.Running
	// Alive says whether the loop answers before ctx ends.
	Alive(ctx context.Context) bool
}

// Notifier tells systemd. Fill in its fields and call Run once.
type Notifier struct {
	Loop Loop
	Log  *slog.Logger
	// Send sends one message of sd_notify(3); Systemd's goes to NOTIFY_SOCKET.
	Send func(state string) error
	// Watchdog is how long systemd waits for a sign of life; 0 is for ever.
	Watchdog time.Duration

	once sync.Once
	news chan struct{}

	mu      sync.Mutex
	ready   bool
	reloads int // that are going on
	failed  bool
}

// Systemd is the notifier of a process that systemd may have started.
func Systemd(loop Loop, log *slog.Logger) *Notifier {
	n := &Notifier{Loop: loop, Log: log, Send: func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	}}
	var err error
	if n.Watchdog, err = daemon.SdWatchdogEnabled(false); err != nil {
		log.Warn("systemd's watchdog gets no sign of life", "err", err)
	}
	return n
}

func (n *Notifier) init() {
	n.once.Do(func() { n.news = make(chan struct{}, 1) })
}

// News is for whoever knows that the loop or a source has got somewhere. It
// returns at once, and may be called from any goroutine.
func (n *Notifier) News() {
	n.init()
	select {
	case n.news <- struct{}{}:
	default: // there are some already
	}
}

// Reloading says that a reload has begun; the function returned says that it is
// over, whatever became of it.
func (n *Notifier) Reloading() (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reloads++; n.reloads == 1 && n.ready {
		n.send(daemon.SdNotifyReloading)
	}
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.reloads--; n.reloads == 0 && n.ready {
			n.send(daemon.SdNotifyReady + "\n" + n.status())
		}
	})
}

// Run tells until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	n.init()
	var watching sync.WaitGroup
	defer watching.Wait()
	if n.Watchdog > 0 {
		watching.Go(func() { n.watch(ctx) })
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	late := false
	said := ""
	for {
		said = n.tell(said, late)
		select {
		case <-ctx.Done():
			n.mu.Lock()
			defer n.mu.Unlock()
			n.send(daemon.SdNotifyStopping)
			return
		case <-deadline.C:
			late = true
		case <-n.poll():
		case <-n.news:
			if !n.isReady() {
				continue // whoever waits for READY has it at once
			}
			select { // more of it comes soon
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// poll is when to look again without news: how far a start is.
func (n *Notifier) poll() <-chan time.Time {
	if n.isReady() {
		return nil
	}
	return time.After(pause)
}

func (n *Notifier) isReady() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

// tell says READY when it is time, and STATUS when it is another than what was
// said.
func (n *Notifier) tell(said string, late bool) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	status := n.status()
	switch {
	case !n.ready && (late || synced(n.Loop)):
		n.ready = true
		n.send(daemon.SdNotifyReady + "\n" + status)
	case status != said:
		n.send(status)
	}
	return status
}

// synced says whether a sync with all that the sources have has succeeded, and no
// VIP waits for other hosts to be asked.
func synced(l Loop) bool {
	now := l.Snapshot()
	return now != nil && now.Report.Err == nil && len(now.Report.Waiting) == 0 && len(now.Report.Plan.Probes) == 0
}

func (n *Notifier) status() string {
	return "STATUS=" + Text(n.Loop.Snapshot(), n.Loop.Running(), n.Loop.Sources())
}

// watch passes on the loop's signs of life. One that stays out is left out:
// systemd ends the process and starts another. The loop is asked in every third
// of the time that there is, so that the log has the reason before the end, and
// the loop another third to prove it wrong.
func (n *Notifier) watch(ctx context.Context) {
	interval := n.Watchdog / 3
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.Loop.Running().Long() {
			n.News() // nobody else says that it goes on
		}
		asking, cancel := context.WithTimeout(ctx, interval)
		alive := n.Loop.Alive(asking)
		cancel()
		switch {
		case alive:
			n.mu.Lock()
			n.send(daemon.SdNotifyWatchdog)
			n.mu.Unlock()
		case ctx.Err() == nil:
			n.Log.Error("the loop does not answer; systemd restarts svcproxy unless it soon does, and the kernel goes on serving", "after", interval)
		}
	}
}

// send is called under the lock, so that messages keep their order. What cannot
// be sent is logged once.
func (n *Notifier) send(state string) {
	err := n.Send(state)
	if err != nil && !n.failed {
		n.Log.Warn("systemd is not told how svcproxy is", "err", err)
	}
	n.failed = err != nil
}
