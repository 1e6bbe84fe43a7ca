package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/verify"
	"github.com/svcproxy/svcproxy/proxy/frontend"
	"github.com/svcproxy/svcproxy/sources"
)

// Kernel is what the loop needs of a kernel: kernel/host's, or kernel/fake's.
// It is used by one goroutine, but for Progress.
type Kernel interface {
	// Read gives everything of ours, and all of IPVS.
	Read(context.Context) (kernel.Observed, error)
	// Unchanged says whether a part of that is as known, connections apart; it may
	// say no for what it noticed elsewhere.
	Verify(ctx context.Context, known *kernel.Observed, shard verify.Shard) (bool, error)
	// Conns gives the connections of some real servers, in their order.
	Conns(context.Context, []kernel.RealKey) ([]kernel.Conns, error)
	// Glance says whether IPVS still looks as known by its cheapest signs: counts.
	// It is called once a second and must neither write nor start a program.
	Glance(known *kernel.Observed) (bool, error)
	// Progress says how far a call has come. It may be called from any goroutine
	// while another call goes on.
	Progress() kernel.Progress
	// Apply carries a plan out in its order and goes on past errors. A
	// *kernel.ApplyError has one error for every op that failed.
	Apply(context.Context, kernel.Plan) error
}

// Rules returns what a node serves of a table and the kernel state for that. With
// hold, occupied names the sets that keep entries which the table does not have.
type Rules func(t sources.Merged, n kernel.Node, hold bool, occupied []string) (*frontend.Frontends, kernel.State)

// startGrace is how long the first sync waits for every source to deliver, so
// that a file that is refused writes nothing and a start is one sync. Then what
// is there is served, and nothing removed. A source that is reading files is
// waited for as long as it gets on.
const startGrace = 2 * time.Second

// Proxy is the loop. Fill in its fields and call Run once.
type Proxy struct {
	Kernel Kernel
	Rules  Rules
	Feeds  []Feed
	Log    *slog.Logger

	// Prober asks whether other hosts have VIPs, before these are bound; without one
	// nobody is asked or told.
	Prober Prober

	SyncPeriod    time.Duration // in which the whole kernel is checked, to begin with: see SetPeriods
	MinSyncPeriod time.Duration // shortest time between two syncs, likewise

	// Facts are what the configuration says about the node, to begin with: see SetFacts. The loop adds the
	// node's addresses and gateways, which it reads from the kernel.
	Facts sources.HostFacts

	// OnSync, if set, is told after every sync what is known then; from the
	// loop's goroutine.
	OnSync func(*Snapshot)
	// Before is what an earlier run served: services keep from others what they had.
	Before sources.Incumbents
	// Served, if set, is told what is served when that is news, to be Before of the
	// next run; from the loop's goroutine.
	Served func(sources.Incumbents)
	// Remember, if set, is told which virtual servers are ours when that may have
	// changed, from the loop's goroutine; nobody changes the slices.
	Remember func(kernel.Record)
	// OnSource, if set, is called with everything that a source emits, table or
	// error, from that source's goroutine.
	OnSource func(SourceState)

	once    sync.Once
	check   chan struct{}
	dump    chan struct{}
	alive   chan struct{}
	periods chan [2]time.Duration

	in     *inbox
	health health
	tables []sources.Table
	merger sources.Merger
	facts  sources.HostFacts // as of the last take
	// unsaved: services may have changed hands since the last call of Served.
	unsaved bool
	pace    pace
	// have is the last reading, kept up to date by what was applied since.
	have  kernel.Observed
	known bool // have can be trusted
	// reread: have was read since what is ours was last remembered.
	reread bool
	hold   bool
	silent []string // the sources that had given no table when the last sync began
	// looked: the kernel was read once. bare: nothing of ours was in it then.
	looked, bare bool
	asked        Cause // for a full check; "" if nobody has
	since        times // of the changes not yet programmed
	// The sync that goes on, nil between two, and how many of its stages are over.
	running atomic.Pointer[Running]
	stages  atomic.Uint64
	tell    *time.Timer // says how far a long sync is
	// What is known to others, and what will be after this sync.
	last    atomic.Pointer[Snapshot]
	next    Snapshot
	failing failures
	// emptied are the services without backends, of one snapshot.
	emptied struct {
		sync.Mutex
		of    *Snapshot
		names []string
	}
	// published is closed, and another put in its place, by every publish.
	published struct {
		sync.Mutex
		news chan struct{}
	}
	// What one source gave and another has already, and what somebody else
	// serves.
	left, conflicts complaintLog
	// What of somebody's firewall keeps clients away, and what of the kernel is too
	// small and not ours to change.
	barred, small complaintLog
	// What is served but probably not as it was meant.
	doubtful complaintLog
	// Why other hosts could not be asked about VIPs.
	unasked complaintLog
	prober  prober
}

func (p *Proxy) init() {
	p.once.Do(func() {
		p.check = make(chan struct{}, 1)
		p.dump = make(chan struct{}, 1)
		p.alive = make(chan struct{})
		p.periods = make(chan [2]time.Duration, 1)
		p.tell = time.AfterFunc(progressEvery, p.sayProgress)
		p.tell.Stop()
		p.in = newInbox(p.Feeds, p.Facts, time.Now)
		p.left = complaintLog{log: p.Log, what: "left out"}
		p.conflicts = complaintLog{log: p.Log, what: "not taken over"}
		p.barred = complaintLog{log: p.Log, what: "in the way"}
		p.small = complaintLog{log: p.Log, what: "too small"}
		p.doubtful = complaintLog{log: p.Log}
		p.unasked = complaintLog{log: p.Log, what: "not probed"}
		p.prober = newProber(p.Prober)
	})
}

// Check asks for a full check of the kernel now: because a person asked
// (CauseAsked), or the node has changed (CauseNode). It returns the number of the
// request: see Report.Asked.
func (p *Proxy) Check(why Cause) uint64 {
	p.init()
	n := p.in.ask(why)
	select {
	case p.check <- struct{}{}:
	default: // the loop is told already
	}
	return n
}

// SetPeriods changes SyncPeriod and MinSyncPeriod of a running loop, or of one
// that is about to run.
func (p *Proxy) SetPeriods(sync, minSync time.Duration) {
	p.init()
	for {
		select {
		case p.periods <- [2]time.Duration{sync, minSync}:
			return
		case <-p.periods: // not taken yet, and out of date
		}
	}
}

// SetFacts changes Facts of a running loop. The next sync judges all services by them; Check has one made.
func (p *Proxy) SetFacts(facts sources.HostFacts) {
	p.init()
	p.in.setFacts(facts)
}

// DumpState asks for the last reading of the kernel to be logged.
func (p *Proxy) DumpState() {
	p.init()
	select {
	case p.dump <- struct{}{}:
	default: // it is asked for already
	}
}

// Sources says how the sources stand.
func (p *Proxy) Sources() []SourceState {
	p.init()
	states := p.in.snapshot()
	for i, f := range p.Feeds {
		if reader, ok := f.Source.(reader); ok && !states[i].Spoken {
			if done, of := reader.Progress(); of > 0 {
				states[i].Progress = fmt.Sprintf("%d of %d files read", done, of)
			}
		}
	}
	return states
}

// reader is a source that may take long to read what it has.
type reader interface {
	// Progress says how many files were read of how many; 0 of 0 before it is known.
	Progress() (done, of int)
}

// filesRead is how many files all sources have read.
func (p *Proxy) filesRead() (all int) {
	for _, f := range p.Feeds {
		if reader, ok := f.Source.(reader); ok {
			done, _ := reader.Progress()
			all += done
		}
	}
	return all
}

// Run serves until ctx ends, and leaves the kernel serving. It returns early
// only when a source gives up, the kernel cannot do what is needed at all, or
// neither the sources nor the kernel have anything to serve and a source says
// why: see sources.RejectedError.
func (p *Proxy) Run(ctx context.Context) error {
	p.init()
	p.merger.Before = p.Before
	p.pace = pace{minGap: p.MinSyncPeriod, period: p.SyncPeriod}
	p.health.period.Store(int64(p.SyncPeriod))
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer p.prober.running.Wait()
	defer cancel()
	gaveUp := make(chan error, len(p.Feeds))
	for i, f := range p.Feeds {
		said := complaintLog{log: p.Log.With("source", f.Name), what: "refused"}
		said.know(complaints(f.Said))
		watching.Go(func() {
			err := f.Source.Watch(ctx, func(t sources.Table, err error) {
				said.hear(complaints(err))
				p.health.queued(time.Now())
				state := p.in.put(i, t, err)
				if p.OnSource != nil {
					p.OnSource(state)
				}
			})
			if err != nil {
				gaveUp <- fmt.Errorf("source %s: %w", f.Name, err)
			}
		})
	}
	if err := p.awaitSources(ctx, gaveUp); err != nil || ctx.Err() != nil {
		return err
	}
	return p.loop(ctx, gaveUp)
}

// awaitSources returns when every source has delivered, or the grace is over.
func (p *Proxy) awaitSources(ctx context.Context, gaveUp <-chan error) error {
	grace := time.NewTimer(startGrace)
	defer grace.Stop()
	read := 0
	for !p.in.complete() && p.in.nothing() == nil {
		select {
		case <-ctx.Done():
			return nil
		case err := <-gaveUp:
			return err
		case <-grace.C:
			now := p.filesRead()
			if now == read {
				return nil
			}
			read = now
			grace.Reset(startGrace)
		case <-p.in.wake:
		case <-p.alive: // to be asked is the answer
		}
	}
	return nil
}

func (p *Proxy) loop(ctx context.Context, gaveUp <-chan error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-gaveUp:
			return err
		case <-p.in.wake:
			p.pace.changed = true
		case answers := <-p.prober.came:
			p.unasked.hear(p.prober.take(answers))
			p.pace.answered = true
		case <-p.check:
			if p.in.isAsked() { // else a sync was faster
				p.pace.lastCheck = time.Time{}
			}
		case periods := <-p.periods:
			p.pace.period, p.pace.minGap = periods[0], periods[1]
			p.health.period.Store(int64(p.pace.period))
		case <-p.alive: // to be asked is the answer
		case <-p.dump:
			p.Log.Info("state", "text", p.have.String())
		case now := <-timer.C:
			if p.pace.due().After(now) {
				p.glance(now)
			} else if err := p.sync(ctx); err != nil || ctx.Err() != nil {
				return err
			}
			p.answer()
		}
		timer.Reset(time.Until(p.pace.soonest()))
	}
}

// answer tells whoever asks that the loop is alive. The next sync may be due
// already, and which of the two comes first would be left to chance: syncs that
// each wait long for another program's lock would look like a loop that hangs.
func (p *Proxy) answer() {
	select {
	case <-p.alive:
	default: // nobody asks
	}
}
