//go:build !noapiserver

package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// excessError is why an answer was not read to its end.
type excessError struct {
	what  string // of which there was too much: an answer, a list, a watch event
	limit int64
	unit  string
}

// Error is "the list has more than 500 pages".
func (e *excessError) Error() string {
	return fmt.Sprintf("the %s has more than %d %s", e.what, e.limit, e.unit)
}

// meter counts the bytes of an answer and ends it beyond a limit. client-go reads an answer to its end
// whatever its size, and a watch event in JSON, too.
type meter struct {
	what  string
	limit int64
	of    int64 // the limit in messages, where it is another; 0 = it is not

	read atomic.Int64 // since the last reset
	over atomic.Bool
}

// reset begins to count anew.
func (m *meter) reset() { m.read.Store(0) }

// excess is an error if there was too much.
func (m *meter) excess() *excessError {
	if !m.over.Load() {
		return nil
	}
	limit := m.limit
	if m.of > 0 {
		limit = m.of
	}
	return &excessError{m.what, limit >> 20, "MiB"}
}

type meterKey struct{}

// metered has the answer to a request under this context counted.
func metered(ctx context.Context, m *meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// counting gives answers whose bodies count what is read of them, after decompression.
type counting struct{ http.RoundTripper }

func (c counting) RoundTrip(q *http.Request) (*http.Response, error) {
	r, err := c.RoundTripper.RoundTrip(q)
	if m, ok := q.Context().Value(meterKey{}).(*meter); ok && err == nil {
		r.Body = &countedBody{r.Body, m}
	}
	return r, err
}

// WrappedRoundTripper lets client-go find the transport that it made.
func (c counting) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

type countedBody struct {
	io.ReadCloser
	*meter
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.meter.read.Add(int64(n)) > b.limit {
		b.over.Store(true)
		return 0, b.excess()
	}
	return n, err
}
