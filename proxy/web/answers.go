package web

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxHeld bounds the bytes of a handler's answers that clients have not taken yet.
// With 1,000 services /metrics has 100 KB, compressed as Prometheus asks for it.
const maxHeld = 16 << 20

// answers are the answers of one handler that are being made or sent. Each answer
// is made before it is sent, so a slow client does not delay others. If too many
// bytes wait, the answer that has been sending the longest is cut off.
type answers struct {
	making Making

	mu      sync.Mutex
	held    int
	sending []*sending // the oldest first
}

// sending is an answer that is being sent.
type sending struct {
	size int
	cut  func()
}

// bounded returns a handler that makes a few answers at a time and
// keeps at most maxHeld bytes of them. Other requests wait.
func bounded(h http.Handler) http.Handler {
	all := &answers{making: NewMaking()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made := all.making.Answer(h, w, r)
		if made == nil {
			return
		}
		s := all.begin(made.Len(), func() { http.NewResponseController(w).SetWriteDeadline(time.Now()) })
		defer all.end(s)
		made.Send()
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
