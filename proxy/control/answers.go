package control

import (
	"net/http"
	"time"

	"github.com/svcproxy/svcproxy/proxy/web"
)

// bounded returns a handler that makes its answer when there is room. A client that leaves no longer waits.
func bounded(m web.Making, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := m.Answer(h, w, r)
		if a == nil { // a client that left does not see it
			http.Error(w, "svcproxy stops", http.StatusServiceUnavailable)
			return
		}
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit)) // an error shows at the write
		a.Send()
	}
}
