// Package static serves the table that stands in the main configuration itself, for a node whose
// services fit on the same page as its settings. Who reads that file hands over what is in it.
package static

import (
	"context"
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
}

// New makes a Source of a table, and of what is wrong with the file it is from, if anything.
func New(t sources.Table, err error) *Source {
	return &Source{table: t, err: err, set: make(chan struct{}, 1)}
}

// Set has another table emitted, or, with an error, the one that goes on while the file is refused. It
// does not wait for that.
func (s *Source) Set(t sources.Table, err error) {
	s.mu.Lock()
	s.table, s.err = t, err
	s.mu.Unlock()
	select {
	case s.set <- struct{}{}:
	default: // the emission to come will have it
	}
}

// Watch emits the table, and again whenever it is set, until ctx ends.
func (s *Source) Watch(ctx context.Context, emit func(sources.Table, error)) error {
	for {
		s.mu.Lock()
		table, err := s.table, s.err
		s.mu.Unlock()
		emit(table, err)
		select {
		case <-ctx.Done():
			return nil
		case <-s.set:
		}
	}
}
