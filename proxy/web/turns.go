package web

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// atOnce bounds the answers of one kind that are made at the same time: each has a whole status made, tens of
// milliseconds and of megabytes with thousands of services. Whoever asks takes some of a processor, not the
// node's memory.
const atOnce = 2

// maxHeld bounds the bytes of answers of one kind that are made and not yet taken. With 1,000 services
// /metrics has 100 KB, compressed as Prometheus asks for it.
const maxHeld = 16 << 20

// turns makes answers of one kind. A client that is slow to take its answer keeps no other from getting one:
// answers are made first and sent then, and where too many bytes wait, the one longest under way is cut off.
type turns struct {
	making chan struct{}

	mu      sync.Mutex
	held    int
	sending []*sending // the longest under way first
}

// sending is an answer under way.
type sending struct {
	size int
	cut  func()
}

// inTurn has requests wait until fewer than atOnce answers are being made.
func inTurn(h http.Handler) http.Handler {
	t := &turns{making: make(chan struct{}, atOnce)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made := &whole{to: w, code: http.StatusOK}
		select {
		case t.making <- struct{}{}:
			func() {
				defer func() { <-t.making }()
				h.ServeHTTP(made, r)
			}()
		case <-r.Context().Done():
			return
		}
		s := t.begin(made.body.Len(), func() { http.NewResponseController(w).SetWriteDeadline(time.Now()) })
		defer t.end(s)
		w.Header().Set("Content-Length", strconv.Itoa(made.body.Len()))
		w.WriteHeader(made.code)
		w.Write(made.body.Bytes()) // an error is the client's going away, or its being cut off
	})
}

// begin makes room for an answer. One that is larger than all the room has it for itself.
func (t *turns) begin(size int, cut func()) *sending {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &sending{size, cut}
	t.sending = append(t.sending, s)
	t.held += size
	for t.held > maxHeld && t.sending[0] != s {
		t.sending[0].cut()
		t.remove(0)
	}
	return s
}

func (t *turns) end(s *sending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.sending, s); i >= 0 {
		t.remove(i)
	}
}

func (t *turns) remove(i int) {
	t.held -= t.sending[i].size
	t.sending = slices.Delete(t.sending, i, i+1)
}

// whole takes an answer as it is made. Headers are the response's own: nothing is sent before it is whole.
type whole struct {
	to   http.ResponseWriter
	code int
	body bytes.Buffer
}

func (a *whole) Header() http.Header         { return a.to.Header() }
func (a *whole) WriteHeader(code int)        { a.code = code }
func (a *whole) Write(b []byte) (int, error) { return a.body.Write(b) }
