package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// dial opens a connection and sends a request, if there is one.
func dial(t *testing.T, addr, request string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, request)
	return c
}

// Clients that do not read their answers do not delay others.
func TestSlowReadersDelayNoOther(t *testing.T) {
	port := free(t, 1)[0]
	l := hello(t)
	answer := make([]byte, 8<<20) // more than the sockets' buffers hold
	const slow = 22
	made := make(chan struct{}, 2*slow)
	l.Handler = bounded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(answer)
		made <- struct{}{}
	}))
	listen(t, l, loopback(port))
	for range slow {
		dial(t, at(port), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").(*net.TCPConn).SetReadBuffer(4096)
	}
	for range slow { // an answer that is made later could cut off one of those below
		<-made
	}
	for range 3 {
		begin := time.Now()
		code, body, err := probe("GET", at(port), "/metrics")
		if took := time.Since(begin); err != nil || code != http.StatusOK || len(body) != len(answer) || took > 5*time.Second {
			t.Errorf("%d with %d bytes, %v, after %v", code, len(body), err, took)
		}
	}
}

// Answers that wait for their clients are bounded: the oldest are cut off.
func TestHeldAnswersAreBounded(t *testing.T) {
	var all answers
	cut := ""
	begin := func(name string, size int) *sending { return all.begin(size, func() { cut += name }) }
	a := begin("a", maxHeld/2)
	b := begin("b", maxHeld/2)
	if cut != "" {
		t.Errorf("cut %q while there is room", cut)
	}
	all.end(a)
	begin("c", maxHeld/2)
	begin("d", 1)
	if cut != "b" {
		t.Errorf("cut %q, want b", cut)
	}
	all.end(b)
	begin("e", 2*maxHeld)
	if cut != "bcd" || all.held != 2*maxHeld || len(all.sending) != 1 {
		t.Errorf("cut %q, %d bytes of %d answers held", cut, all.held, len(all.sending))
	}
}

// An answer is sent as the handler made it.
func TestBoundedKeepsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := bounded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Test", "1")
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, "short and stout")
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != http.StatusTeapot || w.Header().Get("X-Test") != "1" || w.Header().Get("Content-Length") != "15" || w.Body.String() != "short and stout" {
			t.Error(w.Code, w.Header(), w.Body)
		}
	})
}

// Idle connections are bounded, and new clients are served.
func TestIdleConnectionsAreBounded(t *testing.T) {
	ports := free(t, 3)
	l := hello(t)
	listen(t, l, loopback(ports[0]))
	p := opened(t, frontend.HealthCheck{Namespace: "default", Name: "web", Port: ports[1], LocalEndpoints: 1}, frontend.HealthCheck{Namespace: "default", Name: "dns", Port: ports[2], LocalEndpoints: 1})
	const idle = 3 * maxConns
	for i := range idle {
		dial(t, at(ports[i%3]), "")
		if i%16 == 0 {
			dial(t, at(ports[i%3]), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") // and stays
		}
	}
	for range 20 {
		wantProbe(t, at(ports[0]), 200, "hello")
		wantProbe(t, at(ports[1]), 200, "web")
		wantProbe(t, at(ports[2]), 200, "dns")
	}
	if n, m := l.limit.Len(), p.limit.Len(); n > maxConns || m > maxConns {
		t.Errorf("%d and %d connections are open, want at most %d", n, m, maxConns)
	}
}
