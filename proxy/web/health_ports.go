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

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// listenRetry is the time between two tries to open a port. The other listeners use it, too, unless
// bindAddressHardFail is set.
const listenRetry = 5 * time.Second

// Limits of one connection. A probe is one short request every few seconds. Anyone may connect, so each
// connection gets no more than this.
const (
	requestTimeout = 5 * time.Second
	idleTimeout    = time.Minute // longer than the period of most probes
	maxHeader      = 4 << 10     // bytes; net/http adds as much again
)

// HealthPorts serves the node's health check node ports. Fill in the exported fields, then call Set.
type HealthPorts struct {
	// Healthy reports whether the proxy works, as /livez does. It is called by many goroutines.
	Healthy func() bool
	// Eligible reports whether load balancers may choose this node; nil: always.
	Eligible func() bool
	Log      *slog.Logger

	listen func(port uint16) (net.Listener, error) // listenTCP, except in tests
	limit  Limit                                   // of all ports together

	mu      sync.Mutex
	ports   map[uint16]*healthPort
	retry   *time.Timer // nil unless a port waits to be opened
	closed  bool
	serving sync.WaitGroup
}

// healthPort is one port. It listens while it has a server.
type healthPort struct {
	number uint16
	check  atomic.Pointer[frontend.HealthCheck]
	server *http.Server
	socket net.Listener // the server's
	failed bool         // to open, and that was logged
}

// Set replaces the checks. When it returns, new ports listen and old ones refuse connections. Ports that stay
// lose no request, even if another service has the port now. A port that cannot be opened, usually because
// another process has it, is tried again every 5 s. If two checks have one port, the first gets it. After
// Close, Set does nothing.
func (p *HealthPorts) Set(checks []frontend.HealthCheck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	wanted := make(map[uint16]*frontend.HealthCheck, len(checks))
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

// Close closes all ports and their connections, and returns when none listens any more.
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

// open makes a port listen, or schedules another try. The caller holds p.mu.
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
	if p.limit.Max == 0 { // later the servers read it
		p.limit.Max, p.limit.Client = maxConns, remote
	}
	p.serving.Go(func() {
		if err := server.Serve(p.limit.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			p.broken(port, server, err)
		}
	})
}

// later schedules another try and logs the first error. The caller holds p.mu.
func (p *HealthPorts) later(port *healthPort, err error) {
	if !port.failed {
		p.Log.Warn("health check node port not opened: load balancers will treat this node as down",
			"service", port.check.Load().Service, "err", err, "retry", listenRetry)
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

// broken is called when the listener of a port failed.
func (p *HealthPorts) broken(port *healthPort, server *http.Server, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	server.Close() // closes its connections
	if p.ports[port.number] != port {
		return // closed in the meantime
	}
	port.server = nil
	p.later(port, fmt.Errorf("serving port %d: %w", port.number, err))
}

// newServer answers any path and method, also "OPTIONS *", which net/http would answer itself.
func (p *HealthPorts) newServer(port *healthPort) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeCheck(w, *port.check.Load(), p.Healthy(), p.Eligible == nil || p.Eligible())
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

// close closes a port. It closes the socket itself, too, because a server that has just started may not
// know its socket yet. Otherwise the next Set of the same port would find it in use.
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
