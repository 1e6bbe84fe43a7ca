package apiserver

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Relay is between a client and the API server, with a certificate of the same authority. It passes
// on what it is not asked to spoil, and remembers each request.
type Relay struct {
	URL string

	server   http.Server
	listener *conns

	mu       sync.Mutex
	requests []*Request
	faults   []*Fault
}

// A Request is one that came, with what became of it.
type Request struct {
	Came   time.Time
	Method string
	Path   string
	Query  url.Values
	Accept string // what the client would like

	Status      int    // 0 until the answer begins
	ContentType string // of the answer
}

// Watch reports whether it is a watch; a list has the same path.
func (r Request) Watch() bool { return r.Query.Get("watch") != "" && r.Query.Get("watch") != "false" }

// Resource is the last word of the path: services, endpointslices, nodes.
func (r Request) Resource() string { return r.Path[strings.LastIndexByte(r.Path, '/')+1:] }

// A Fault spoils requests, in place of the server or of the network.
type Fault struct {
	When  func(Request) bool // nil is each
	Times int                // 0 is until Heal

	Status int // answered instead of the server, if not 0
	Header http.Header
	After  int // if Status is 0: bytes of the answer's body, then all connections are cut
}

// NewRelay starts one; Close ends it.
func (c *Cluster) NewRelay() (*Relay, error) {
	cert, key, err := c.Authority.Server(net.IPv4(127, 0, 0, 1), guestsHost)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	r := &Relay{URL: "https://" + l.Addr().String(), listener: &conns{Listener: l}}
	pass := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(server) },
		Transport: &http.Transport{TLSClientConfig: trust(c.Authority.PEM), ForceAttemptHTTP2: true, DisableCompression: true},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			// A server that is down does not answer, so the relay does not either.
			panic(http.ErrAbortHandler)
		},
		ErrorLog: quiet,
	}
	r.server = http.Server{
		Handler:   r.spoil(pass),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ErrorLog:  quiet,
	}
	go r.server.ServeTLS(r.listener, "", "")
	return r, nil
}

// quiet: what goes wrong here is what a test asked for.
var quiet = log.New(io.Discard, "", 0)

// Close ends the relay and all connections through it.
func (r *Relay) Close() error { return r.server.Close() }

// Cut resets all connections.
func (r *Relay) Cut() { r.listener.cut() }

// Spoil adds a fault. The first that fits a request is done to it.
func (r *Relay) Spoil(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, &f)
}

// Heal takes all faults back.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

// Requests are those that came so far.
func (r *Relay) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Request, len(r.requests))
	for i, request := range r.requests {
		list[i] = *request
	}
	return list
}

// spoil notes each request and does to it what a fault says, or else passes it on.
func (r *Relay) spoil(pass http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		noted := &Request{Came: time.Now(), Method: q.Method, Path: q.URL.Path, Query: q.URL.Query(), Accept: q.Header.Get("Accept")}
		fault := r.note(noted)
		answer := &answer{ResponseWriter: w, relay: r, request: noted, left: -1}
		switch {
		case fault == nil:
		case fault.Status != 0:
			for name, values := range fault.Header {
				w.Header()[name] = values
			}
			http.Error(answer, http.StatusText(fault.Status), fault.Status)
			return
		default:
			answer.left = fault.After
		}
		pass.ServeHTTP(answer, q)
	})
}

// note keeps a request and finds the fault that is meant for it.
func (r *Relay) note(noted *Request) *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, noted)
	i := slices.IndexFunc(r.faults, func(f *Fault) bool { return f.When == nil || f.When(*noted) })
	if i < 0 {
		return nil
	}
	fault := r.faults[i]
	if fault.Times > 0 {
		if fault.Times--; fault.Times == 0 {
			r.faults = slices.Delete(r.faults, i, i+1)
		}
	}
	return fault
}

// An answer notes how it begins, and ends where a fault has it end.
type answer struct {
	http.ResponseWriter
	relay   *Relay
	request *Request
	left    int // bytes until the cut; negative is never
}

func (a *answer) WriteHeader(status int) {
	a.relay.mu.Lock()
	a.request.Status, a.request.ContentType = status, a.Header().Get("Content-Type")
	a.relay.mu.Unlock()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.left < 0 || len(p) <= a.left {
		if a.left >= 0 {
			a.left -= len(p)
		}
		return a.ResponseWriter.Write(p)
	}
	a.ResponseWriter.Write(p[:a.left])
	http.NewResponseController(a.ResponseWriter).Flush()
	a.relay.Cut()
	panic(http.ErrAbortHandler)
}

// Unwrap gives http.ResponseController the writer that can flush.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// conns is a listener that knows the connections it has accepted.
type conns struct {
	net.Listener
	mu   sync.Mutex
	open map[*conn]bool
}

func (l *conns) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*conn]bool{}
	}
	known := &conn{c, l}
	l.open[known] = true
	return known, nil
}

func (l *conns) cut() {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		// Reset the connection instead of closing it, as when a router dies.
		c.Conn.(*net.TCPConn).SetLinger(0)
		c.Conn.Close()
	}
}

// A conn tells its listener that it is closed.
type conn struct {
	net.Conn
	listener *conns
}

func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
