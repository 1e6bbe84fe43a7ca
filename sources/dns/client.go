package dns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/svcproxy/svcproxy/sources"
)

const (
	// queryLimit is how long one server has for an answer.
	queryLimit = time.Second
	// rounds is how often all servers are asked.
	rounds = 2
	// mostForeign is how many messages that are no answers are read for one question.
	mostForeign = 32
)

// client asks servers.
type client struct {
	servers func() []netip.AddrPort
	bad     atomic.Uint64 // messages that were not the answer to the question

	mu     sync.Mutex
	idle   []*socket // that may ask again
	silent map[netip.AddrPort]time.Time
}

// socket asks one server over UDP, from a port that the kernel chose at random. It has one question at a time. A new
// one for each question would be half of all cost.
type socket struct {
	net.Conn
	server netip.AddrPort
	asked  int
}

// mostAsked is how many questions come from one port.
const mostAsked = 8

func (c *client) socket(ctx context.Context, server netip.AddrPort) (*socket, error) {
	c.mu.Lock()
	i := slices.IndexFunc(c.idle, func(s *socket) bool { return s.server == server })
	if i >= 0 {
		s := c.idle[i]
		c.idle = slices.Delete(c.idle, i, i+1)
		c.mu.Unlock()
		return s, nil
	}
	c.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", server.String())
	return &socket{Conn: conn, server: server}, err
}

// done takes back the socket of a question that was answered.
func (c *client) done(s *socket) {
	if s.asked++; s.asked == mostAsked {
		s.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, s)
}

// rest closes the sockets that ask nothing.
func (c *client) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.idle {
		s.Close()
	}
	c.idle = nil
}

// retryAfter is how long a server that did not answer is asked last. Then one question begins with it.
const retryAfter = 5 * time.Second

// order returns servers in the order in which a question goes to them: first those that answer.
func (c *client) order(servers []netip.AddrPort, now time.Time) (first []netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last []netip.AddrPort
	for _, s := range servers {
		switch since, silent := c.silent[s]; {
		case !silent:
			first = append(first, s)
		case now.Sub(since) >= retryAfter:
			c.silent[s] = now // other questions do not wait for it
			first = append(first, s)
		default:
			last = append(last, s)
		}
	}
	return append(first, last...)
}

// heard takes whether a server answered anything.
func (c *client) heard(server netip.AddrPort, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.As(err, new(silentError)) {
		delete(c.silent, server)
		return
	}
	if c.silent == nil {
		c.silent = map[netip.AddrPort]time.Time{}
	}
	c.silent[server] = now
}

// silentError says that no answer came.
type silentError struct{ error }

// resolve returns the addresses of a key. It returns errNone, wrapped, if there are none.
func (c *client) resolve(ctx context.Context, k Key) (answer, error) {
	kind := dnsmessage.TypeA
	if k.V6 {
		kind = dnsmessage.TypeAAAA
	}
	if !k.SRV {
		r, err := c.chain(ctx, question{k.Host, kind})
		return answer{addresses: addressesOf(r.addrs, target{}, 0, false), ttl: r.ttl}, err
	}
	r, err := c.chain(ctx, question{k.Host, dnsmessage.TypeSRV})
	if err != nil {
		return answer{}, err
	}
	return c.targets(ctx, r, kind)
}

// targets resolves the targets of SRV records. Those without addresses are lost, unless a server fails.
func (c *client) targets(ctx context.Context, r reply, kind dnsmessage.Type) (answer, error) {
	a := answer{ttl: r.ttl, hosts: map[string][]netip.Addr{}}
	if len(r.targets) > sources.MostAddresses {
		return a, fmt.Errorf("it has %d SRV records: at most %d are followed", len(r.targets), sources.MostAddresses)
	}
	best := ^uint16(0)
	for _, t := range r.targets {
		best = min(best, t.priority)
	}
	none := map[string]error{}
	for _, t := range r.targets {
		if t.host == "" || t.port == 0 {
			continue // "." is no target: RFC 2782
		}
		found, asked := a.hosts[t.host]
		if !asked && none[t.host] == nil {
			r, err := c.target(ctx, question{t.host, kind})
			switch {
			case errors.Is(err, errNone):
				none[t.host] = err
			case err != nil:
				return a, err
			default:
				found, a.hosts[t.host], a.ttl = r.addrs, r.addrs, min(a.ttl, r.ttl)
			}
		}
		if err := none[t.host]; err != nil {
			a.lost = append(a.lost, lost{t, t.priority != best, err})
			continue
		}
		a.addresses = append(a.addresses, addressesOf(found, t, uint32(t.weight), t.priority != best)...)
	}
	return a, nil
}

// target resolves a target. Its name is of a server, and may be any bytes.
func (c *client) target(ctx context.Context, q question) (reply, error) {
	if err := sources.CheckHost(q.name); err != nil {
		return reply{}, fmt.Errorf("target %w: it %w", err, errNone)
	}
	r, err := c.chain(ctx, q)
	if err == nil && len(r.addrs) == 0 {
		err = errNone
	}
	if err != nil {
		err = fmt.Errorf("target %s: %w", q.name, err)
	}
	return r, err
}

func addressesOf(addrs []netip.Addr, t target, weight uint32, backup bool) []sources.NameAddress {
	list := make([]sources.NameAddress, len(addrs))
	for i, a := range addrs {
		list[i] = sources.NameAddress{Addr: a, Port: t.port, Weight: weight, Backup: backup}
	}
	return list
}

// chain asks for a name, and for those that its aliases lead to where the answer does not have them.
func (c *client) chain(ctx context.Context, q question) (reply, error) {
	ttl := time.Duration(1<<63 - 1)
	for steps := 0; steps <= mostSteps; {
		r, err := c.ask(ctx, q)
		if err != nil {
			return r, err
		}
		if r.ttl = min(r.ttl, ttl); r.alias == "" {
			return r, nil
		}
		q.name, ttl, steps = r.alias, r.ttl, steps+r.steps
	}
	return reply{}, errChain
}

// ask asks each server until one has an answer.
func (c *client) ask(ctx context.Context, q question) (r reply, err error) {
	err = errors.New("no DNS server is known")
	servers := c.order(c.servers(), time.Now())
	for range rounds {
		for _, server := range servers {
			r, err = c.askOne(ctx, server, q)
			c.heard(server, err, time.Now())
			if err == nil || errors.Is(err, errNone) || errors.Is(err, errChain) {
				return r, err
			}
			if ctx.Err() != nil {
				return r, err
			}
			err = fmt.Errorf("%s: %w", server, err)
		}
	}
	return r, err
}

// askOne asks one server.
func (c *client) askOne(ctx context.Context, server netip.AddrPort, q question) (r reply, err error) {
	deadline := time.Now().Add(queryLimit)
	s, err := c.socket(ctx, server)
	if err != nil {
		return r, short(err)
	}
	r, err = c.exchange(s, false, deadline, q)
	if err == nil || errors.Is(err, errNone) {
		c.done(s)
		return r, err
	}
	s.Close()
	if !errors.Is(err, errTruncated) {
		return r, err
	}
	deadline = time.Now().Add(queryLimit)
	conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", server.String())
	if err != nil {
		return r, short(err)
	}
	defer conn.Close()
	return c.exchange(conn, true, deadline, q)
}

func (c *client) exchange(conn net.Conn, tcp bool, deadline time.Time, q question) (r reply, err error) {
	conn.SetDeadline(deadline)
	var random [2]byte
	rand.Read(random[:])
	id := binary.BigEndian.Uint16(random[:])
	message, err := q.pack(id)
	if err != nil {
		return r, err
	}
	if tcp {
		message = append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
	}
	if _, err = conn.Write(message); err != nil {
		return r, short(err)
	}
	for range mostForeign {
		got, err := receive(conn, tcp)
		if err != nil {
			return r, short(err)
		}
		r, err = q.parse(got, id)
		if !errors.Is(err, errForeign) {
			return r, err
		}
		if c.bad.Add(1); tcp {
			return r, err
		}
	}
	return r, fmt.Errorf("%d messages came, and each %w", mostForeign, errForeign)
}

// receive reads one message.
func receive(conn net.Conn, tcp bool) ([]byte, error) {
	if tcp {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return nil, err
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		_, err := io.ReadFull(conn, b)
		return b, err
	}
	b := make([]byte, udpSize)
	n, err := conn.Read(b)
	return b[:n], err
}

// short leaves out of an error which port it was asked from: a text that changes each time is a change.
func short(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return silentError{errors.New("no answer")}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return silentError{op.Err}
	}
	return silentError{err}
}
