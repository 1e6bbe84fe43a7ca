// Package static serves the table that stands in the main configuration itself, for a node whose
// services fit on the same page as its settings. Who reads that file hands over what is in it.
package static

import (
	"context"
	"fmt"
	"sync"

	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// Decode reads the services table of svcproxy.toml, by the rules of services.toml; the document's other
// keys are proxy/config's. name is the file's name in messages.
func Decode(name string, data []byte) (t sources.Table, warnings, problems []sources.Problem) {
	return file.DecodeServices("static", name, data)
}

// Source emits the table that it was last given.
type Source struct {
	mu    sync.Mutex
	table sources.Table
	err   error
	set   chan struct{}
	// How often it was set, and how many of these are emitted; news is closed,
	// and another put in its place, by every emission.
	sets, emitted uint64
	news          chan struct{}
}

// New makes a Source of a table, and of what is wrong with the file it is from, if anything.
func New(t sources.Table, err error) *Source {
	return &Source{table: t, err: err, sets: 1, set: make(chan struct{}, 1), news: make(chan struct{})}
}

// Set has another table emitted, or, with an error, the one that goes on while the file is refused. It
// does not wait for that: see Emitted.
func (s *Source) Set(t sources.Table, err error) {
	s.mu.Lock()
	s.table, s.err = t, err
	s.sets++
	s.mu.Unlock()
	select {
	case s.set <- struct{}{}:
	default: // the emission to come will have it
	}
}

// Emitted waits until Watch has emitted what was set last; the error is ctx's.
func (s *Source) Emitted(ctx context.Context) error {
	s.mu.Lock()
	want := s.sets
	s.mu.Unlock()
	for {
		s.mu.Lock()
		done, news := s.emitted >= want, s.news
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the services in the configuration: %w", ctx.Err())
		}
	}
}

// Watch emits the table, and again whenever it is set, until ctx ends.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		s.mu.Lock()
		table, err, n := s.table, s.err, s.sets
		s.mu.Unlock()
		emit(table, err)
		s.mu.Lock()
		s.emitted = n
		close(s.news)
		s.news = make(chan struct{})
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-s.set:
		}
	}
}
