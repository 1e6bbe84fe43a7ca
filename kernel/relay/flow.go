package relay

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxKept is the size of the largest datagram that is sent again if an endpoint refuses it: an
// Ethernet frame's.
const maxKept = 1500

// flow is what one client exchanges with one virtual server over UDP. It has a socket, connected to
// the endpoint, so that answers find their client and errors of ICMP arrive.
type flow struct {
	l      *listener
	client netip.AddrPort
	at     *list.Element // guarded by flows.mu
	last   atomic.Int64  // time.Duration since the relay began: a datagram either way

	mu       sync.Mutex
	conn     *net.UDPConn
	raw      syscall.RawConn
	choice   *choice
	answered bool
	kept     []byte // last datagram, until the first answer
	again    bool   // another endpoint has been tried
	ended    bool
}

var started = time.Now()

func (f *flow) touch() { f.last.Store(int64(time.Since(started))) }

// connect gives the flow an endpoint other than those excluded. f.mu is held, or the flow is new.
func (f *flow) connect(exclude []*endpoint) bool {
	s := f.l.s
	for range maxRefused {
		c := s.pick(f.client, exclude)
		if c == nil {
			return false
		}
		conn, err := s.r.dialer.DialContext(s.ctx, network("udp", c.to.addr.Addr()), c.to.text)
		if err == nil {
			f.conn, f.choice = conn.(*net.UDPConn), c
			if f.raw, err = f.conn.SyscallConn(); err == nil && s.enter(c, f) {
				f.conn.SetReadDeadline(time.Now().Add(s.r.o.UDPIdle))
				return true
			}
			conn.Close()
		}
		s.leave(c, nil)
		if s.ctx.Err() != nil {
			return false
		}
		if isShortage(err) {
			s.r.short(NoFiles)
			return false
		}
		exclude = append(exclude, c.to)
	}
	return false
}

// send gives a client's datagram to the endpoint. It is false if the datagram is lost.
func (f *flow) send(data []byte) bool {
	f.touch()
	f.mu.Lock()
	ok, dead := false, false
	if !f.ended {
		if !f.answered && len(data) <= maxKept {
			f.kept = append(f.kept[:0], data...)
		}
		err := f.write(data)
		ok = err == nil
		// The error is an earlier datagram's; this one was not sent.
		if isRefused(err) {
			ok = f.failOver()
			dead = !ok
		}
	}
	f.mu.Unlock()
	if dead {
		f.end()
	}
	return ok
}

// write does not wait for room in the socket. f.mu is held.
func (f *flow) write(data []byte) error {
	var err error
	if e := f.raw.Write(func(fd uintptr) bool {
		err = unix.Send(int(fd), data, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		return true
	}); e != nil {
		return e
	}
	if err == nil {
		f.meters().in(1, uint64(len(data)))
	}
	return err
}

func (f *flow) meters() meters {
	return meters{&f.choice.to.traffic, &f.l.s.traffic, &f.l.s.r.total}
}

// isRefused says that an endpoint, or a router on the way, has answered with an error of ICMP.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}

// failOver gives the flow another endpoint, once, and sends the datagram again that no endpoint
// has answered. f.mu is held.
func (f *flow) failOver() bool {
	if f.again {
		return false
	}
	f.again = true
	conn, raw, c := f.conn, f.raw, f.choice
	if !f.connect([]*endpoint{c.to}) {
		f.conn, f.raw, f.choice = conn, raw, c // for end
		return false
	}
	conn.Close()
	f.l.s.leave(c, f)
	f.l.s.r.stats.retries.Add(1)
	return len(f.kept) == 0 || f.write(f.kept) == nil
}

// current is nil when the flow has ended.
func (f *flow) current() (*net.UDPConn, syscall.RawConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, nil
	}
	return f.conn, f.raw
}

// replies sends the endpoint's datagrams to the client, until the flow is idle. The listener's own
// socket sends them, so they come from the address that the client has asked.
func (f *flow) replies() {
	defer f.l.s.r.running.Done()
	defer f.end()
	var in receiver
	read := in.reply
	for {
		conn, raw := f.current()
		if conn == nil {
			return
		}
		err := raw.Read(read)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			idle := time.Since(started) - time.Duration(f.last.Load())
			if idle >= f.l.s.r.o.UDPIdle {
				return
			}
			conn.SetReadDeadline(time.Now().Add(f.l.s.r.o.UDPIdle - idle))
		case err != nil: // closed, and current says whether there is another
		case isRefused(in.err):
			if !f.retry(conn) {
				return
			}
		case in.err == nil:
			f.answer(in.data())
		}
		in.release()
	}
}

// retry fails over, unless send has done so since conn refused.
func (f *flow) retry(conn *net.UDPConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended || f.conn != conn || f.failOver()
}

func (f *flow) answer(data []byte) {
	f.touch()
	f.mu.Lock()
	f.answered, f.kept = true, nil
	all := f.meters()
	f.mu.Unlock()
	if _, err := f.l.udp.WriteToUDPAddrPort(data, f.client); err != nil {
		f.l.s.r.stats.dropped.Add(1)
		return
	}
	all.out(1, uint64(len(data)))
}

// abort ends a flow whose endpoint is gone. The client's next datagram begins another.
func (f *flow) abort() { f.end() }

// end may be called several times.
func (f *flow) end() {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return
	}
	f.ended = true
	f.mu.Unlock()
	f.conn.Close()
	f.l.flows.remove(f)
	s := f.l.s
	s.leave(f.choice, f)
	s.r.files.give(1)
	s.r.stats.flows.Add(-1)
}
