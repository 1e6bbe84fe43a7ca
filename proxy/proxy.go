package proxy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/plan"
	"github.com/svcproxy/svcproxy/proxy/announce"
	"github.com/svcproxy/svcproxy/proxy/condition"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Kernel is the kernel as the loop needs it. kernel/host and kernel/fake implement it.
// One goroutine calls it, except for Progress.
type Kernel interface {
	// Read returns all objects of ours, and all of IPVS.
	Read(context.Context) (kernel.Observed, error)
	// Verify reports whether a shard of the kernel is as known, connections apart. It
	// may also return false for a difference elsewhere.
	Verify(ctx context.Context, known *kernel.Observed, shard plan.Shard) (bool, error)
	// Conns returns the connections of some real servers, in their order.
	Conns(context.Context, []kernel.RealKey) ([]kernel.Conns, error)
	// QuickCheck reports whether the kernel has as many objects as known. It is called
	// once a second and must neither write nor start a program.
	QuickCheck(known *kernel.Observed) (bool, error)
	// Progress returns how far a call has come. Any goroutine may call it during
	// another call.
	Progress() kernel.Progress
	// Apply applies a plan in its order and goes on after an error. A
	// *kernel.ApplyError has one error for every op that failed.
	Apply(context.Context, kernel.Plan) error
}

// Rules returns what a node serves of a table and the kernel state for that. While it
// keeps what is not decided, occupied names the sets that keep entries which the table
// does not have.
type Rules func(t sources.Merged, n kernel.Node, occupied []string) (*frontend.Frontends, kernel.State)

// HealthChecks decide which endpoints of a table get connections. proxy/health/checker
// implements it.
type HealthChecks interface {
	// Overlay returns a table with the weights that follow from health and from the
	// operator's orders, and its Delta from the one that it returned last. wake is
	// when the result changes by itself; zero is never. The loop's goroutine calls it
	// once for each merged table.
	Overlay(m sources.Merged, have *kernel.Observed) (out sources.Merged, wake time.Time)
}

// Announcer decides which VIPs routing daemons are told of. The loop's goroutine calls it.
type Announcer interface {
	// Keep returns a merged table with the VIPs that it lost, while routers still know of
	// them, and with its Delta from the one that Keep returned last.
	Keep(m sources.Merged, have *kernel.Observed) sources.Merged
	// Announce decides for a wanted state without announcements, and when to decide again; zero is never.
	Announce(
		f *frontend.Frontends, want *kernel.State, have *kernel.Observed, now kernel.Now,
	) (d announce.Decision, wake time.Time)
}

// Options are what the loop works with.
type Options struct {
	Kernel Kernel
	Rules  Rules
	Feeds  []Feed
	Log    *slog.Logger

	// Prober asks other hosts for VIPs before they are bound, and announces them after
	// that. Without it VIPs are bound at once and not announced.
	Prober Prober

	// Listeners tells which programs of this host listen at ports that are wanted. Without it services take the
	// ports of all of them. The loop's goroutine calls it.
	Listeners func(wanted func(port uint16, proto kernel.Proto) bool) ([]kernel.Listener, error)

	// TryLimits asks the kernel whether it can refuse clients. The error is a *kernel.MissingError if it cannot, and
	// any other error is no answer. Without TryLimits any kernel can. The loop's goroutine calls it, if a service has
	// limits.
	TryLimits func() error

	// Conditions has what is wrong for a while. It may be nil.
	Conditions *condition.Board

	// Health changes the weights of endpoints; nil leaves them as the sources have
	// them. Replan requests a sync with its present result.
	Health HealthChecks

	// Announcer is nil if routing daemons are never told of VIPs.
	Announcer Announcer

	// SyncPeriod is the time in which the whole kernel is checked, and MinSyncPeriod the
	// shortest time between two syncs. SetPeriods changes them.
	SyncPeriod, MinSyncPeriod time.Duration

	// Facts are what the configuration says about the node. SetFacts changes them. The
	// loop adds the node's addresses and gateways, which it reads from the kernel.
	Facts sources.HostFacts

	// Before is what an earlier run served: its services keep their addresses.
	Before sources.Incumbents

	// The loop's goroutine calls these, unless they are nil. OnSync gets what is known
	// after every sync. Served gets what is served if that may have changed, to become
	// Before of the next run. Remember gets the virtual servers that are ours if they
	// may have changed; its slices never change.
	OnSync   func(*Snapshot)
	Served   func(sources.Incumbents)
	Remember func(kernel.Record)

	// Asker returns who asked for the files to be read, while that goes on; else "". It may be nil.
	Asker func() string

	// OnSource, if not nil, is called after everything that a source emits, by the
	// goroutine of the source.
	OnSource func(SourceState)
}

// Proxy is the loop. Make it with New and call Run once. OnSync and OnSource may be set
// until then.
type Proxy struct {
	Options

	// These are shared with other goroutines.
	requests  requests
	in        *inbox
	backlog   backlog
	progress  progress
	snapshots snapshots
	idle      idleServices

	// The rest belongs to the loop's goroutine.
	pace      pace
	load      load
	reading   reading
	merger    sources.Merger
	prober    prober
	logs      logs
	listening listening
	limits    limits
	firewall  firewall
	input     input    // of the sync that runs, or ran last
	next      Snapshot // what the sync that runs will publish

	judged  bool     // the first reading of the kernel was judged
	keeps   bool     // the last merged table did not decide all: see sources.Merged
	unsaved bool     // services may have changed since the last call of Served
	asked   CauseSet // of a full check that no sync has made yet
	pending times    // of the changes that are not programmed yet
}

// New makes a loop that does nothing until Run.
func New(o Options) *Proxy {
	p := &Proxy{Options: o, requests: newRequests(), in: newInbox(o.Feeds, o.Facts, time.Now), logs: newLogs(o.Log),
		prober: newProber(o.Prober)}
	p.progress.init(o.Kernel, o.Log)
	p.reading.kernel = o.Kernel
	p.merger.Before = o.Before
	return p
}

// Run serves until ctx ends, and leaves the kernel serving. It returns an error if a
// source ends early or the kernel lacks what is needed. It also returns one if neither
// the sources nor the kernel have anything to serve and a source says why: see
// sources.RejectedError.
func (p *Proxy) Run(ctx context.Context) error {
	p.setPeriods(periods{p.SyncPeriod, p.MinSyncPeriod})
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer p.prober.running.Wait()
	defer cancel()
	ended := p.watch(ctx, &watching)
	if err := p.awaitSources(ctx, ended); err != nil || ctx.Err() != nil {
		return err
	}
	return p.loop(ctx, ended)
}

func (p *Proxy) loop(ctx context.Context, ended <-chan error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-p.in.wake:
			p.pace.changed = true
		case answers := <-p.prober.answered:
			p.logs.unprobed.report(p.prober.keep(answers))
			p.pace.answered = true
		case <-p.requests.check:
			if p.in.isAsked() { // else a sync took the request first
				p.pace.lastCheck = time.Time{}
			}
		case <-p.requests.written:
			p.pace.written = true
		case <-p.requests.replan:
			p.pace.replan = true
		case periods := <-p.requests.periods:
			p.setPeriods(periods)
		case <-p.requests.alive: // receiving it is the answer
		case <-p.requests.dump:
			p.Log.Info("state", "text", p.reading.memory.String()+p.reading.have.String())
		case now := <-timer.C:
			if ctx.Err() != nil { // also in the middle of a load
				return nil
			}
			if p.pace.due().After(now) {
				p.pace.quickChecked(now, p.reading.quickCheck())
				if p.programsChanged() {
					p.Check(CauseNode)
				}
			} else if err := p.sync(ctx); err != nil || ctx.Err() != nil {
				return err
			}
			p.answer()
		}
		timer.Reset(time.Until(p.pace.soonest()))
	}
}

func (p *Proxy) setPeriods(now periods) {
	p.pace.period, p.pace.minGap = now.sync, now.minSync
	p.backlog.period.Store(int64(now.sync))
}
