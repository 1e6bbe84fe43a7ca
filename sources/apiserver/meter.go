//go:build !noapiserver

package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// excessError says that an answer exceeds a limit.
type excessError struct {
	what  string // an answer, a list, a watch event
	limit int64
	unit  string
}

// Error is "the list has more than 500 pages".
func (e *excessError) Error() string {
	return fmt.Sprintf("the %s has more than %d %s", e.what, e.limit, e.unit)
}

// meter counts the bytes of an answer and ends it beyond a limit. client-go reads an answer of any size, and a watch
// event in JSON, too.
type meter struct {
	what  string
	limit int64
	of    int64 // the limit in messages, if it differs; 0 = it does not

	read atomic.Int64 // since the last reset
	over atomic.Bool
}

// reset sets the count to 0.
func (m *meter) reset() { m.read.Store(0) }

// excess is an error if the count is beyond the limit.
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

// metered returns a context whose requests have their answers counted.
func metered(ctx context.Context, m *meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// counting counts the bytes that are read of answers, after decompression.
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
