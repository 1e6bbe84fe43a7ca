package checker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os/user"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/health"
	"github.com/svcproxy/svcproxy/proxy/health/probe"
	"github.com/svcproxy/svcproxy/sources"
)

// Options are what a Checker works with.
type Options struct {
	StateDir string // has overrides.json, agents.json and since.json
	// Keeper repeats what could not be written there; nil: nothing does.
	Keeper   *statefile.Keeper
	Settings Settings
	ExecDirs []string // have the programs of exec checks
	Log      *slog.Logger

	// Wake is called when what Overlay returns may have changed. It must not block.
	Wake func()
	// Noticed, unless nil, gets all events in their order, those of one moment together. One goroutine calls it.
	Noticed func([]health.Event)
	// Conditions, unless nil, gets what is wrong with checks for a while.
	Conditions *condition.Board
	// Probed, unless nil, gets each result. Calls for different targets overlap.
	Probed func(sources.CheckType, probe.Result)
}

// Settings are the part of the configuration that is about health checks.
type Settings struct {
	// Defaults are for the keys that a service's health check does not give. Scheduler is for services without one.
	Defaults  sources.HealthCheck
	Scheduler string
	Believe   bool // a mass failure counts at once

	// These keep the value of the start.
	Limits   probe.Limits
	ExecUser string // runs the programs of exec checks; "" = our own user
}

// Checker runs the health checks. Make it with New. Its methods may be called from any goroutine, unless they say
// something else.
type Checker struct {
	Options
	prober  probe.Prober
	runner  *probe.Runner
	overlay overlay       // of the loop's goroutine
	news    chan struct{} // there are events for Noticed
	tables  chan struct{} // there is a table to follow
	prunes  chan struct{} // orders may be over

	// ordering is held while orders change and while their file is written, which a disk that hangs may block for
	// hours. The loops must not take it. It is locked before mu.
	ordering sync.Mutex
	orders   orders // reading Overrides and changed needs mu alone, writing them both

	mu       sync.Mutex
	settings Settings
	board    health.Board
	targets  map[health.Key]*target
	fresh    []health.Event // that Overlay has not taken
	told     []health.Event // that Noticed has not got
	served   served         // what Overlay returned last
	followed sources.Table  // whose targets are probed
	ticks    int            // so far
	next     sources.Table  // whose targets are to be probed

	agents agents
	since  since
	silent map[netip.AddrPort]bool // see health.Known

	follows sync.Mutex // of follow
}

// New returns a Checker that probes nothing until Run.
func New(o Options) (*Checker, error) {
	c := &Checker{
		Options: o, settings: o.Settings, targets: map[health.Key]*target{},
		news: make(chan struct{}, 1), tables: make(chan struct{}, 1), prunes: make(chan struct{}, 1),
	}
	c.agents.kept = kept{name: agentsFile, lost: "what agents said", content: func() json.Marshaler {
		return c.board.Agents(c.agents.before)
	}}
	c.since.kept = kept{name: sinceFile, lost: "since when endpoints are up or down", content: c.sinceContent}
	var err error
	c.prober.ExecDirs = o.ExecDirs
	if c.prober.Credential, err = Credential(o.Settings.ExecUser); err != nil {
		return nil, err
	}
	c.orders.Overrides, c.orders.unread = ReadOrders(o.StateDir)
	if c.agents.before, err = readAgents(o.StateDir); err != nil {
		o.Log.Warn(err.Error())
	}
	if c.since.before, err = readSince(o.StateDir); err != nil {
		o.Log.Warn(err.Error())
	}
	c.board.Believe = o.Settings.Believe
	c.runner = probe.NewRunner(&c.prober, c.record, o.Settings.Limits)
	return c, nil
}

// nobody is the user without rights of every Linux. It stands in for sources.ExecUser where no package has made that.
const nobody = 65534

// Credential returns the ids of the user with a name, and no other groups; nil for none.
func Credential(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown && name == sources.ExecUser {
		return &syscall.Credential{Uid: nobody, Gid: nobody}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("health.execUser: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("health.execUser: id of user %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("health.execUser: group of user %s: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// tick is how often the checker looks at what depends on time alone: the end of a mass failure or of an
// order, and checks that tell nothing.
const tick = time.Second

// Run probes until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.runner.Run(ctx) })
	running.Go(func() { c.tell(ctx) })
	running.Go(func() { c.prune(ctx) })
	running.Go(func() { c.keepFiles(ctx, &c.agents.kept, &c.since.kept) })
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.tables:
			c.followNext()
		case now := <-ticks.C:
			c.ticked(now)
		}
	}
}

// tell gives the events to Noticed.
func (c *Checker) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		}
		c.mu.Lock()
		events := c.told
		c.told = nil
		c.mu.Unlock()
		if c.Noticed != nil && len(events) > 0 {
			c.Noticed(events)
		}
	}
}

// ticked looks at what depends on time alone.
func (c *Checker) ticked(now time.Time) {
	c.mu.Lock()
	events := c.board.Tick(now)
	c.note(events)
	c.ticks++
	dark := c.dark(now)
	c.mu.Unlock()
	c.Conditions.SetAll(condition.CheckBlind, darkConditions(dark, now))
	c.Conditions.SetAll(condition.CheckLate, lateConditions(c.runner.Starved(), now))
	if len(events) > 0 {
		c.Wake()
	}
	signal(c.prunes)
}

// note keeps events for Overlay and Noticed. The lock is held.
func (c *Checker) note(events []health.Event) {
	if len(events) == 0 {
		return
	}
	c.since.changed(events)
	c.fresh = append(c.fresh, events...)
	c.told = append(c.told, events...)
	signal(c.news)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // the last one was not received yet
	}
}

// Configure takes new settings, but for those that keep the value of the start. If mass failures count from now on, one
// that is held counts at once.
func (c *Checker) Configure(s Settings) {
	c.mu.Lock()
	c.settings, c.board.Believe = s, s.Believe
	events := c.board.Tick(time.Now())
	c.note(events)
	c.mu.Unlock()
	if len(events) > 0 {
		c.Wake()
	}
}

// SetSilent says which endpoints answer none of their clients.
func (c *Checker) SetSilent(silent map[netip.AddrPort]bool) {
	c.mu.Lock()
	same := maps.Equal(c.silent, silent)
	c.silent = silent
	c.mu.Unlock()
	if !same {
		c.Wake()
	}
}

// Alive reports whether probes start when they are due: see probe.Runner.Alive.
func (c *Checker) Alive(now time.Time) bool { return c.runner.Alive(now) }
