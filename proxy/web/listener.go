package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/svcproxy/svcproxy/proxy/conns"
)

// Limits of one connection to a Listener. A browser sends what cookies it has for the host, whatever
// their port; an answer may be a scrape of thousands of services over a slow link. A profile, which takes
// as long as it was asked to, sets its own deadline.
const (
	answerTimeout = 30 * time.Second
	maxCookies    = 16 << 10 // bytes of header
)

// maxConns bounds the connections to a Listener, and those to all health check node ports together. Each
// costs some 20 KB, also if nothing is asked.
const maxConns = 256

// remote tells clients apart by their address.
func remote(c net.Conn) (string, bool) {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host, false
}

// shutdownTimeout is how long an answer that is under way when its listener moves or closes may take.
const shutdownTimeout = 2 * time.Second

// Listener serves a handler over HTTP at an address that may change meanwhile. Fill in its fields, then
// tell Listen the address.
type Listener struct {
	Name    string // in messages: "healthz"
	Handler http.Handler
	Log     *slog.Logger

	listen func(addr string) (net.Listener, error) // net.Listen, but for tests
	limit  conns.Limit

	mu      sync.Mutex
	addr    netip.AddrPort // where to listen; zero while it is off
	server  *http.Server   // nil unless it listens
	socket  net.Listener   // the server's
	retry   *time.Timer    // nil unless the address waits to be bound
	failed  bool           // to bind it, and it was said
	closed  bool
	serving sync.WaitGroup
}

// Listen has it listen at an address from now on, and not any more where it did; the zero address turns
// it off. Answers under way are finished. An address that cannot be bound is tried again every 5 s, or,
// if hard, it is the error, and what was before goes on. After Close, Listen does nothing.
func (l *Listener) Listen(addr netip.AddrPort, hard bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || addr == l.addr && (l.server != nil || !hard) {
		return nil
	}
	before := l.addr
	// First, since the addresses may overlap: 0.0.0.0 and 127.0.0.1, with one port.
	l.stop()
	l.addr = addr
	if !addr.IsValid() {
		return nil
	}
	err := l.open()
	if err == nil {
		return nil
	}
	if !hard {
		l.later(err)
		return nil
	}
	if l.addr = before; before.IsValid() {
		if err := l.open(); err != nil {
			l.later(err)
		}
	}
	return fmt.Errorf("%s: %w", l.Name, err)
}

// Addr is where it listens; zero if it does not.
func (l *Listener) Addr() netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return netip.AddrPort{}
	}
	addr, _ := netip.ParseAddrPort(l.socket.Addr().String())
	return addr
}

// Close closes it for good, and returns when the answers under way are finished or 2 s have passed.
func (l *Listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.stop()
	l.mu.Unlock()
	l.serving.Wait()
}

// open binds the address and serves it. l.mu is held.
func (l *Listener) open() error {
	listen := l.listen
	if listen == nil {
		listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	socket, err := listen(l.addr.String())
	if err != nil {
		return err
	}
	server := l.newServer()
	l.server, l.socket = server, socket
	l.limit.Max, l.limit.Client = maxConns, remote
	if l.failed {
		l.Log.Info("listening", "listener", l.Name, "address", l.addr)
		l.failed = false
	}
	l.serving.Go(func() {
		if err := server.Serve(l.limit.Listener(socket)); !errors.Is(err, http.ErrServerClosed) {
			l.broken(server, err)
		}
	})
	return nil
}

// later has the address bound at the next try, and says why once. l.mu is held.
func (l *Listener) later(err error) {
	if !l.failed {
		l.Log.Warn("not listening", "listener", l.Name, "err", err, "retry", listenRetry)
		l.failed = true
	}
	l.retry = time.AfterFunc(listenRetry, l.reopen)
}

// reopen tries the address again.
func (l *Listener) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// It may have moved, opened or closed while this waited for the lock.
	if l.closed || l.server != nil || !l.addr.IsValid() {
		return
	}
	if err := l.open(); err != nil {
		l.later(err)
	}
}

// broken takes note that a server has ended by itself.
func (l *Listener) broken(server *http.Server, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != server {
		return // stopped meanwhile
	}
	server.Close() // of the connections
	l.server = nil
	l.later(fmt.Errorf("serving %s: %w", l.addr, err))
}

// stop closes the socket at once, and the connections when their answers are finished. l.mu is held.
func (l *Listener) stop() {
	if l.retry != nil {
		l.retry.Stop()
	}
	l.failed = false
	server := l.server
	if server == nil {
		return
	}
	// Here, too: a server that was started a moment ago may not know its socket yet.
	l.socket.Close()
	l.server = nil
	l.serving.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	})
}

func (l *Listener) newServer() *http.Server {
	return &http.Server{
		Handler:           l.Handler,
		ReadTimeout:       requestTimeout,
		ReadHeaderTimeout: requestTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxCookies,
		ErrorLog:          slog.NewLogLogger(l.Log.Handler(), slog.LevelWarn),
	}
}
