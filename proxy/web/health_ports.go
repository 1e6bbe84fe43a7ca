package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcproxy/svcproxy/proxy/conns"
)

// listenRetry is how long a port that could not be opened is left alone, as bindAddressHardFail = false
// has it for the other listeners.
const listenRetry = 5 * time.Second

// Limits of one connection. A probe is one short request every few seconds; anybody may connect, so
// nobody gets to hold more than this.
const (
	requestTimeout = 5 * time.Second
	idleTimeout    = time.Minute // longer than the period of most probes
	maxHeader      = 4 << 10     // bytes; net/http adds as much again
)

// HealthPorts are the node's health check node ports. Fill in its fields, then tell Set what they answer.
type HealthPorts struct {
	// Healthy says whether the proxy does its work: what /livez says. It is called by many goroutines.
	Healthy func() bool
	Log     *slog.Logger

	listen func(port uint16) (net.Listener, error) // listenTCP, but for tests
	limit  conns.Limit                             // of all ports together

	mu      sync.Mutex
	ports   map[uint16]*healthPort
	retry   *time.Timer // nil unless a port waits to be opened
	closed  bool
	serving sync.WaitGroup
}

// healthPort is one port, which listens while it has a server.
type healthPort struct {
	number uint16
	check  atomic.Pointer[HealthCheck]
	server *http.Server
	socket net.Listener // the server's
	failed bool         // to open, and it was said
}

// Set makes checks what the ports answer. When it returns, the ports of new checks listen, those whose
// check is gone refuse connections, and the others have lost no request, not even one whose port is
// another service's now. A port that cannot be opened, mostly since somebody else has it, is tried again
// every 5 s. Of two checks with one port the first has it. After Close, Set does nothing.
func (p *HealthPorts) Set(checks []HealthCheck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	wanted := make(map[uint16]*HealthCheck, len(checks))
	for _, c := range checks {
		if wanted[c.Port] == nil {
			wanted[c.Port] = &c
		}
	}
	for number, port := range p.ports {
		if wanted[number] == nil {
			port.close()
			delete(p.ports, number)
		}
	}
	if p.ports == nil {
		p.ports = make(map[uint16]*healthPort)
	}
	for number, check := range wanted {
		port, known := p.ports[number]
		if !known {
			port = &healthPort{number: number}
			p.ports[number] = port
		}
		port.check.Store(check)
		if !known {
			p.open(port)
		}
	}
}

// Close closes all ports and the connections to them, and returns when none listens any more.
func (p *HealthPorts) Close() {
	p.mu.Lock()
	p.closed = true
	if p.retry != nil {
		p.retry.Stop()
	}
	for _, port := range p.ports {
		port.close()
	}
	p.ports = nil
	p.mu.Unlock()
	p.serving.Wait()
}

// open makes a port listen, or sees to it that this is tried again. p.mu is held.
func (p *HealthPorts) open(port *healthPort) {
	listen := p.listen
	if listen == nil {
		listen = listenTCP
	}
	l, err := listen(port.number)
	if err != nil {
		p.later(port, err)
		return
	}
	if port.failed {
		p.Log.Info("health check node port opened", "port", port.number)
		port.failed = false
	}
	server := p.newServer(port)
	port.server, port.socket = server, l
	p.limit.Max, p.limit.Client = maxConns, remote
	p.serving.Go(func() {
		if err := server.Serve(p.limit.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			p.broken(port, server, err)
		}
	})
}

// later has a port opened at the next try, and says why once. p.mu is held.
func (p *HealthPorts) later(port *healthPort, err error) {
	if !port.failed {
		p.Log.Warn("health check node port not opened: load balancers take this node for dead",
			"service", port.check.Load().fullName(), "err", err, "retry", listenRetry)
		port.failed = true
	}
	if p.retry == nil {
		p.retry = time.AfterFunc(listenRetry, p.reopen)
	}
}

// reopen tries every port that does not listen.
func (p *HealthPorts) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retry = nil
	for _, port := range p.ports {
		if port.server == nil {
			p.open(port)
		}
	}
}

// broken takes note that a port's listener has ended by itself.
func (p *HealthPorts) broken(port *healthPort, server *http.Server, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	server.Close() // of the connections
	if p.ports[port.number] != port {
		return // closed meanwhile
	}
	port.server = nil
	p.later(port, fmt.Errorf("serving port %d: %w", port.number, err))
}

// newServer answers any path and any method, "OPTIONS *" too, which net/http would call all right.
func (p *HealthPorts) newServer(port *healthPort) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			port.check.Load().write(w, p.Healthy())
		}),
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  requestTimeout,
		ReadHeaderTimeout:            requestTimeout,
		WriteTimeout:                 requestTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
	}
}

// close closes a port. The socket is closed here too: a server that was started a moment ago may not know
// it yet, and whoever sets the same port next would find it in use.
func (port *healthPort) close() {
	if port.server != nil {
		port.server.Close()
		port.socket.Close()
	}
}

// listenTCP listens on all addresses of the node, of both families.
func listenTCP(port uint16) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf(":%d", port))
}
