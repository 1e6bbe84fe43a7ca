package config

import (
	"context"
	"fmt"
	"sync"

	"github.com/svcproxy/svcproxy/sources"
)

// Static is the source of the services in svcproxy.toml. It emits the table
// that it was last given.
type Static struct {
	mu    sync.Mutex
	table sources.Table
	err   error
	set   chan struct{} // wakes Watch

	sets, emitted uint64        // calls of Set, and how many of them were emitted
	news          chan struct{} // closed and replaced at each emission
}

// NewStatic makes a source of a table. err is why the file is refused, if it is.
func NewStatic(t sources.Table, err error) *Static {
	return &Static{table: t, err: err, sets: 1, set: make(chan struct{}, 1), news: make(chan struct{})}
}

// Set replaces the table. err is why the file is refused; t is then the last
// good table. Set does not wait until Watch has emitted it: see Emitted.
func (s *Static) Set(t sources.Table, err error) {
	s.mu.Lock()
	s.table, s.err = t, err
	s.sets++
	s.mu.Unlock()
	select {
	case s.set <- struct{}{}:
	default: // Watch is already due to emit
	}
}

// Emitted waits until Watch has emitted what the last Set gave. The error is ctx's.
func (s *Static) Emitted(ctx context.Context) error {
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

// Watch emits the table now and after each Set, until ctx ends.
func (s *Static) Watch(ctx context.Context, emit func(sources.Table, error)) error {
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
