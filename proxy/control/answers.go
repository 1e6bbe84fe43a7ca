package control

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// maxMaking bounds the large answers that are made at the same time: each is megabytes of JSON with thousands of services.
const maxMaking = 2

// making is the answers that are being made. Each is made before it is sent, so a client that does not read delays no other.
type making chan struct{}

// bounded returns a handler that makes its answer when there is room. A client that leaves no longer waits.
func (m making) bounded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		made := &buffered{to: w, code: http.StatusOK}
		select {
		case m <- struct{}{}:
		case <-r.Context().Done():
			stops(w, r)
			return
		}
		m.make(h, made, r)
		w.Header().Set("Content-Length", strconv.Itoa(made.body.Len()))
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows at the write
		w.WriteHeader(made.code)
		w.Write(made.body.Bytes()) // an error means that the client left
	}
}

// make calls the handler of an answer that has room, and leaves the room, also if the handler panics. It makes nothing
// for a client that left while it waited.
func (m making) make(h http.HandlerFunc, made *buffered, r *http.Request) {
	defer func() { <-m }()
	if r.Context().Err() != nil {
		h = stops
	}
	h(made, r)
}

// stops answers a request that will not be served. A client that left does not see it.
func stops(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "svcproxy stops", http.StatusServiceUnavailable)
}

// buffered is a ResponseWriter that keeps code and body. Headers go to the real one, which sends nothing before its
// WriteHeader.
type buffered struct {
	to   http.ResponseWriter
	code int
	body bytes.Buffer
}

func (b *buffered) Header() http.Header            { return b.to.Header() }
func (b *buffered) WriteHeader(code int)           { b.code = code }
func (b *buffered) Write(body []byte) (int, error) { return b.body.Write(body) }
