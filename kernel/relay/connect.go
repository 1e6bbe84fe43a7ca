package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
)

// maxRefused is after how many endpoints that refuse a connection the relay gives up.
const maxRefused = 16

// serve relays one connection.
func (s *service) serve(client *net.TCPConn) {
	defer s.r.running.Done()
	defer s.r.stats.streams.Add(-1)
	defer s.r.files.give(2)
	client.SetKeepAliveConfig(keepAlive)
	st := &stream{s: s, client: client}
	if !s.connect(st) {
		s.r.stats.unreachable.Add(1)
		reset(client)
		return
	}
	st.run()
}

// connect finds an endpoint that answers. Nothing has been read from the client by then, so the
// client does not notice how many were tried.
//
// An endpoint that does not answer costs one of the time limits. One that refuses costs none and is
// not tried again. When all have been tried, those that did not answer are tried once more with
// what is left, since the packets of the first try may have been lost.
func (s *service) connect(st *stream) bool {
	client := clientAddr(st.client.RemoteAddr())
	var refused, tried []*endpoint
	for try := 0; try < len(s.r.limits.dial) && len(refused) < maxRefused; {
		c := s.pick(client, tried)
		if c == nil {
			if len(tried) == len(refused) {
				return false
			}
			tried = append(tried[:0], refused...)
			continue
		}
		server, err := s.dial(c.to, try)
		if err == nil {
			st.server, st.choice = server, c
			if s.enter(c, st) {
				return true
			}
			reset(server)
		}
		s.leave(c, nil)
		switch {
		case s.ctx.Err() != nil:
			return false
		case isShortage(err): // this node's fault: the same endpoint may be tried again
			s.r.short(NoFiles)
			pause := backoff(s.r.limits.dial[try] / 2)
			if !pause.wait(s.ctx.Done()) {
				return false
			}
			try++
			continue
		case isTimeout(err):
			s.missed(c.to)
			try++
		default:
			refused = append(refused, c.to)
		}
		tried = append(tried, c.to)
		s.r.stats.retries.Add(1)
	}
	return false
}

// dial connects to an endpoint, within the time limit of this try.
func (s *service) dial(to *endpoint, try int) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.r.limits.dial[try])
	defer cancel()
	// DialTCP would bind the socket beforehand, and so use up a port for all endpoints.
	conn, err := s.r.dialer.DialContext(ctx, network("tcp", to.addr.Addr()), to.text)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func clientAddr(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
