package web

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limit bounds the open connections of its listeners together. The HTTP listeners and the control socket have one each.
// An open connection takes some 20 KB, even if it is idle. If there are too many, the client with the most loses the
// one that has been idle the longest. So a new client is always served, however many connections others keep open.
// Its methods may be called from any goroutine.
type Limit struct {
	Max int
	// Client names the client of a connection. Connections with keep are closed only if there are no others.
	// Nil: all connections are of one client.
	Client func(net.Conn) (name string, keep bool)

	mu   sync.Mutex
	open map[*conn]struct{}
}

// Listener returns a listener whose connections count.
func (l *Limit) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

// Len is the number of open connections.
func (l *Limit) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

type listener struct {
	net.Listener
	limit *Limit
}

// Accept closes another connection if there are too many.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.limit.add(c), nil
}

// conn is an open connection.
type conn struct {
	net.Conn
	limit  *Limit
	client string
	keep   bool
	used   atomic.Int64 // when something was last read or written, on the monotonic clock
}

var start = time.Now()

func (c *conn) touch() { c.used.Store(int64(time.Since(start))) }

// NetConn returns the connection without its limit, as of tls.Conn.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.touch()
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.touch()
	}
	return n, err
}

// Close closes the connection, which no longer counts.
func (c *conn) Close() error {
	c.limit.mu.Lock()
	delete(c.limit.open, c)
	c.limit.mu.Unlock()
	return c.Conn.Close()
}

func (l *Limit) add(inner net.Conn) net.Conn {
	c := &conn{Conn: inner, limit: l}
	c.touch()
	if l.Client != nil {
		c.client, c.keep = l.Client(inner)
	}
	l.mu.Lock()
	if l.open == nil {
		l.open = make(map[*conn]struct{})
	}
	l.open[c] = struct{}{}
	var victim *conn
	if len(l.open) > l.Max {
		victim = l.victim(c)
		delete(l.open, victim)
	}
	l.mu.Unlock()
	if victim != nil {
		victim.Conn.Close()
	}
	return c
}

// victim is the connection to close. It is the newest only if that one is not to be kept and all others are.
// The caller holds l.mu.
func (l *Limit) victim(newest *conn) *conn {
	count := make(map[string]int)
	for c := range l.open {
		count[c.client]++
	}
	var worst *conn
	for c := range l.open {
		if c != newest && (worst == nil || worse(c, worst, count)) {
			worst = c
		}
	}
	if worst == nil || worst.keep && !newest.keep {
		return newest
	}
	return worst
}

// worse reports whether to close a rather than b.
func worse(a, b *conn, count map[string]int) bool {
	switch {
	case a.keep != b.keep:
		return b.keep
	case count[a.client] != count[b.client]:
		return count[a.client] > count[b.client]
	}
	return a.used.Load() < b.used.Load()
}
