package web

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxMaking bounds the answers of one handler that are made at the same time. Each
// makes a whole status: tens of milliseconds and megabytes with thousands of
// services. So clients can use processors, but not all of the node's memory.
const maxMaking = 2

// maxHeld bounds the bytes of a handler's answers that clients have not taken yet.
// With 1,000 services /metrics has 100 KB, compressed as Prometheus asks for it.
const maxHeld = 16 << 20

// answers are the answers of one handler that are being made or sent. Each answer
// is made before it is sent, so a slow client does not delay others. If too many
// bytes wait, the answer that has been sending the longest is cut off.
type answers struct {
	making chan struct{}

	mu      sync.Mutex
	held    int
	sending []*sending // the oldest first
}

// sending is an answer that is being sent.
type sending struct {
	size int
	cut  func()
}

// bounded returns a handler that makes at most maxMaking answers at a time and
// keeps at most maxHeld bytes of them. Other requests wait.
func bounded(h http.Handler) http.Handler {
	all := &answers{making: make(chan struct{}, maxMaking)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made := &buffered{to: w, code: http.StatusOK}
		select {
		case all.making <- struct{}{}:
			func() {
				defer func() { <-all.making }()
				h.ServeHTTP(made, r)
			}()
		case <-r.Context().Done():
			return
		}
		s := all.begin(made.body.Len(), func() { http.NewResponseController(w).SetWriteDeadline(time.Now()) })
		defer all.end(s)
		w.Header().Set("Content-Length", strconv.Itoa(made.body.Len()))
		w.WriteHeader(made.code)
		w.Write(made.body.Bytes()) // an error means that the client left or was cut off
	})
}

// begin makes room for an answer by cutting off older ones. An answer larger than
// maxHeld may be the only one.
func (a *answers) begin(size int, cut func()) *sending {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &sending{size, cut}
	a.sending = append(a.sending, s)
	a.held += size
	for a.held > maxHeld && a.sending[0] != s {
		a.sending[0].cut()
		a.remove(0)
	}
	return s
}

func (a *answers) end(s *sending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.sending, s); i >= 0 {
		a.remove(i)
	}
}

func (a *answers) remove(i int) {
	a.held -= a.sending[i].size
	a.sending = slices.Delete(a.sending, i, i+1)
}

// buffered is a ResponseWriter that keeps code and body. Headers go to the real
// one, which sends nothing before its WriteHeader.
type buffered struct {
	to   http.ResponseWriter
	code int
	body bytes.Buffer
}

func (b *buffered) Header() http.Header            { return b.to.Header() }
func (b *buffered) WriteHeader(code int)           { b.code = code }
func (b *buffered) Write(body []byte) (int, error) { return b.body.Write(body) }
