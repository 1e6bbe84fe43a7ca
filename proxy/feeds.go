package proxy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/sources"
)

// Feed is a source with its name for messages. Feeds are merged in their order: the
// earlier one wins.
type Feed struct {
	Name   string
	Source sources.Source
	// Logged is an error of the source that is in the log already; nil without one.
	Logged error
}

// SourceState is the state of a source.
type SourceState struct {
	Name string
	// Delivered: it has delivered a complete table.
	Delivered bool
	// Progress is how far it is with its first reading, in words; "" if it does not
	// say or has delivered.
	Progress string
	Others   sources.Others // the services that it leaves to other proxies
	// Err is what was wrong with what it read last, nil without an error. Since is
	// when that became so.
	Err   error
	Since time.Time
}

// Sources returns the states of the sources. It may be called from any goroutine.
func (p *Proxy) Sources() []SourceState {
	states := p.in.snapshot()
	for i, f := range p.Feeds {
		if reader, ok := f.Source.(reader); ok && !states[i].Delivered {
			if done, of := reader.Progress(); of > 0 {
				states[i].Progress = fmt.Sprintf("%d of %d files read", done, of)
			}
		}
		if sharer, ok := f.Source.(sharer); ok {
			states[i].Others = sharer.Others()
		}
	}
	return states
}

// Table returns the last table of a source, and whether it has delivered a complete
// one. It may be called from any goroutine.
func (p *Proxy) Table(source string) (t sources.Table, delivered bool) {
	return p.in.table(source)
}

// reader is a source that may take long for its first table.
type reader interface {
	// Progress returns how many files were read of how many; 0 of 0 before the
	// number is known.
	Progress() (done, of int)
}

// sharer is a source that leaves some of its services to other proxies.
type sharer interface{ Others() sources.Others }

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

// watch starts all sources. The error of a source that ends early arrives at ended.
func (p *Proxy) watch(ctx context.Context, watching *sync.WaitGroup) (ended <-chan error) {
	errs := make(chan error, len(p.Feeds))
	for i, f := range p.Feeds {
		refused := problemLog{log: p.Log.With("source", f.Name), message: "refused"}
		refused.logged(problemsOf(f.Logged))
		watching.Go(func() {
			err := f.Source.Watch(ctx, func(t sources.Table, err error) {
				refused.report(problemsOf(err))
				if delivers(err) {
					p.backlog.queued(time.Now())
				}
				state := p.in.put(i, t, err)
				if p.OnSource != nil {
					p.OnSource(state)
				}
			})
			if err != nil {
				errs <- fmt.Errorf("%s: %w", sources.WordsFor(f.Name).Name, err)
			}
		})
	}
	return errs
}

// startGrace is how long the first sync waits for every source to deliver. So a start
// is one sync, and a file that is refused at the start writes nothing. After it the
// loop serves what has arrived and removes nothing. It goes on waiting for sources
// that read files, as long as they make progress.
const startGrace = 2 * time.Second

// awaitSources returns when every source has delivered, or after the grace.
func (p *Proxy) awaitSources(ctx context.Context, ended <-chan error) error {
	grace := time.NewTimer(startGrace)
	defer grace.Stop()
	read := 0
	for !p.in.complete() && p.in.nothing() == nil {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-grace.C:
			now := p.filesRead()
			if now == read {
				return nil
			}
			read = now
			grace.Reset(startGrace)
		case <-p.in.wake:
		case <-p.requests.alive: // receiving it is the answer
		}
	}
	return nil
}
