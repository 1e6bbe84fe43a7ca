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
)

// Limits of one connection to a Listener. A browser sends all cookies it has for the host, regardless of the
// port. An answer may be a scrape of thousands of services over a slow link. A profile sets its own deadline,
// since it takes as long as the client asks for.
const (
	answerTimeout = 30 * time.Second
	maxCookies    = 16 << 10 // bytes of header
)

// maxConns bounds the connections to a Listener, and those to all health check node ports together. Each
// takes some 20 KB, even if it is idle.
const maxConns = 256

// remote names a client by its address, for Limit.
func remote(c net.Conn) (string, bool) {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host, false
}

// shutdownTimeout bounds the answers in progress when a listener moves or closes.
const shutdownTimeout = 2 * time.Second

// Listener serves a handler over HTTP at an address that may change. Fill in the exported fields, then call
// Listen.
type Listener struct {
	Name    string // for messages: "healthz"
	Handler http.Handler
	Log     *slog.Logger

	listen func(addr string) (net.Listener, error) // net.Listen, except in tests
	limit  Limit

	mu      sync.Mutex
	addr    netip.AddrPort // where to listen; zero = nowhere
	server  *http.Server   // nil unless it listens
	socket  net.Listener   // the server's
	retry   *time.Timer    // nil unless the address waits to be bound
	failed  bool           // to bind it, and that was logged
	closed  bool
	serving sync.WaitGroup
}

// Listen moves the listener to an address; the zero address turns it off. Answers in progress are finished.
// If the address cannot be bound, Listen tries again every 5 s. With hard it returns the error instead, and the
// listener stays where it was. After Close, Listen does nothing.
func (l *Listener) Listen(addr netip.AddrPort, hard bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || addr == l.addr && (l.server != nil || !hard) {
		return nil
	}
	before := l.addr
	// Stop first: the old and the new address may overlap, as 0.0.0.0:80 and 127.0.0.1:80 do.
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

// Addr is where the listener listens; zero if it does not.
func (l *Listener) Addr() netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return netip.AddrPort{}
	}
	addr, _ := netip.ParseAddrPort(l.socket.Addr().String())
	return addr
}

// Close closes the listener for good. It returns when the answers in progress are finished, after 2 s at most.
func (l *Listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.stop()
	l.mu.Unlock()
	l.serving.Wait()
}

// open binds the address and serves it. The caller holds l.mu.
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

// later schedules another try and logs the first error. The caller holds l.mu.
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
	// The listener may have moved, opened or closed while this waited for the lock.
	if l.closed || l.server != nil || !l.addr.IsValid() {
		return
	}
	if err := l.open(); err != nil {
		l.later(err)
	}
}

// broken is called when a server failed.
func (l *Listener) broken(server *http.Server, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != server {
		return // stopped in the meantime
	}
	server.Close() // closes its connections
	l.server = nil
	l.later(fmt.Errorf("serving %s: %w", l.addr, err))
}

// stop closes the socket at once, and connections when their answers are finished. The caller holds l.mu.
func (l *Listener) stop() {
	if l.retry != nil {
		l.retry.Stop()
	}
	l.failed = false
	server := l.server
	if server == nil {
		return
	}
	// A server that has just started may not know its socket yet, so Shutdown alone could leave it open.
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
