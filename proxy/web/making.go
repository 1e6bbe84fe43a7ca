package web

import (
	"bytes"
	"net/http"
	"strconv"
)

// MaxMaking bounds the answers that a Making makes at the same time. A whole status takes tens of
// milliseconds and megabytes with thousands of services. So clients can use processors, but not all of the
// node's memory.
const MaxMaking = 2

// Making makes large answers in memory, a few at a time, before they are sent. So a client that does not read delays no
// other.
type Making chan struct{}

// NewMaking returns a Making that makes nothing yet.
func NewMaking() Making { return make(Making, MaxMaking) }

// Answer makes the answer of a handler when there is room. It is nil if the request ended before: nothing was
// made then.
func (m Making) Answer(h http.Handler, w http.ResponseWriter, r *http.Request) *Answer {
	select {
	case m <- struct{}{}:
	case <-r.Context().Done():
		return nil
	}
	defer func() { <-m }()
	if r.Context().Err() != nil {
		return nil
	}
	a := &Answer{to: w, code: http.StatusOK}
	h.ServeHTTP(a, r)
	return a
}

// Answer is a ResponseWriter that keeps code and body. Headers go to the real one, which sends nothing before Send.
type Answer struct {
	to   http.ResponseWriter
	code int
	body bytes.Buffer
}

// Header returns those of the real ResponseWriter.
func (a *Answer) Header() http.Header { return a.to.Header() }

// WriteHeader keeps the code.
func (a *Answer) WriteHeader(code int) { a.code = code }

// Write keeps a part of the body.
func (a *Answer) Write(body []byte) (int, error) { return a.body.Write(body) }

// Len is the number of bytes of the body.
func (a *Answer) Len() int { return a.body.Len() }

// Send sends the answer. A client that left, or whose connection was closed, does not get it.
func (a *Answer) Send() {
	a.Header().Set("Content-Length", strconv.Itoa(a.body.Len()))
	a.to.WriteHeader(a.code)
	a.to.Write(a.body.Bytes())
}
