package web

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hello is a listener that answers every request with "hello". Its log fails the test.
func hello(t *testing.T) *Listener {
	t.Helper()
	l := &Listener{
		Name: "test", Log: slog.New(slog.NewTextHandler(failing{t}, nil)),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }),
	}
	t.Cleanup(l.Close)
	return l
}

func loopback(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

func listen(t *testing.T, l *Listener, addr netip.AddrPort) {
	t.Helper()
	if err := l.Listen(addr, true); err != nil {
		t.Fatal(err)
	}
}

func TestListenerMoves(t *testing.T) {
	ports := free(t, 2)
	l := hello(t)
	listen(t, l, loopback(ports[0]))
	wantProbe(t, at(ports[0]), 200, "hello")

	listen(t, l, loopback(ports[1]))
	wantRefused(t, ports[0])
	wantProbe(t, at(ports[1]), 200, "hello")
	if l.Addr() != loopback(ports[1]) {
		t.Errorf("says it listens at %v", l.Addr())
	}

	// To all addresses with the same port and back: the addresses overlap.
	listen(t, l, netip.AddrPortFrom(netip.IPv4Unspecified(), ports[1]))
	wantProbe(t, at(ports[1]), 200, "hello")
	listen(t, l, loopback(ports[1]))
	wantProbe(t, at(ports[1]), 200, "hello")

	listen(t, l, netip.AddrPort{})
	wantRefused(t, ports[1])
	listen(t, l, loopback(ports[0]))
	wantProbe(t, at(ports[0]), 200, "hello")
	l.Close()
	wantRefused(t, ports[0])
	listen(t, l, loopback(ports[0]))
	wantRefused(t, ports[0])
}

// An answer in progress is finished when the listener moves.
func TestListenerFinishesAnswers(t *testing.T) {
	ports := free(t, 2)
	asked, moved := make(chan struct{}), make(chan struct{})
	l := hello(t)
	l.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-moved
		io.WriteString(w, "all of it")
	})
	listen(t, l, loopback(ports[0]))
	answer := make(chan string)
	go func() {
		code, body, err := probe("GET", at(ports[0]), "/")
		answer <- fmt.Sprint(code, body, err)
	}()
	<-asked
	listen(t, l, loopback(ports[1]))
	close(moved)
	if got := <-answer; got != "200all of it<nil>" {
		t.Errorf("got %s", got)
	}
}

// With hard, an address in use is an error, and the listener stays where it was.
func TestListenerFailsHard(t *testing.T) {
	ports := free(t, 2)
	taken, err := net.Listen("tcp", at(ports[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l := hello(t)
	wantErr := func() {
		t.Helper()
		if err := l.Listen(loopback(ports[1]), true); err == nil || !strings.Contains(err.Error(), "test: listen tcp") {
			t.Errorf("bound an address in use: %v", err)
		}
	}
	wantErr()
	listen(t, l, loopback(ports[0]))
	wantErr()
	wantProbe(t, at(ports[0]), 200, "hello")
}

func TestListenerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := &host{refuse: syscall.EADDRINUSE}
		l := &Listener{Name: "test", Log: slog.New(slog.NewTextHandler(&log, nil)), Handler: http.NotFoundHandler()}
		l.listen = func(string) (net.Listener, error) { return h.listen(0) }
		defer l.Close()
		want := func(tries int, lines ...string) {
			t.Helper()
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			logged := strings.Split(strings.TrimSpace(log.String()), "\n")
			for i, line := range lines {
				if h.tries != tries || len(logged) != len(lines) || !strings.Contains(logged[i], line) {
					t.Fatalf("%d tries, logged:\n%s\nwant %d and %q", h.tries, log.String(), tries, lines)
				}
			}
		}
		refuse := func(err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			h.refuse = err
		}
		if err := l.Listen(loopback(10249), false); err != nil {
			t.Fatal(err)
		}
		want(1, "address already in use")
		time.Sleep(16 * time.Second)
		want(4, "address already in use")
		refuse(nil)
		time.Sleep(5 * time.Second)
		want(5, "in use", "listening")

		// A listener that fails is treated the same.
		refuse(syscall.EADDRINUSE)
		h.listener.end <- syscall.EINVAL
		time.Sleep(6 * time.Second)
		want(6, "in use", "listening", "invalid argument")

		// An address that is no longer wanted is not tried again.
		if err := l.Listen(netip.AddrPort{}, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(6, "in use", "listening", "invalid argument")
	})
}
