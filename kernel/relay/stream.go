package relay

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stream is a relayed TCP connection.
type stream struct {
	s              *service
	choice         *choice
	client, server *net.TCPConn
	half           atomic.Bool // a side has ended
	failed         atomic.Bool // it ends with a reset
}

// run copies both ways until both sides have ended.
func (st *stream) run() {
	e := st.choice.to
	st.choice.count(&e.active)
	all := meters{&e.traffic, &st.s.traffic, &st.s.r.total}
	in := direction{st: st, from: st.client, to: st.server, add: all.in}
	out := direction{st: st, from: st.server, to: st.client, add: all.out}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.run()
	}()
	in.run()
	<-done
	if st.failed.Load() {
		st.abort()
	} else {
		st.client.Close()
		st.server.Close()
	}
	st.s.leave(st.choice, st)
}

// abort resets both sides.
func (st *stream) abort() {
	st.failed.Store(true)
	reset(st.client)
	reset(st.server)
}

// halve says that one direction has ended. The other goes on while it has data.
func (st *stream) halve() {
	if st.half.CompareAndSwap(false, true) {
		st.choice.count(&st.choice.to.inactive)
		st.extend()
	}
}

// extend gives a half-closed connection another period.
func (st *stream) extend() {
	until := time.Now().Add(st.s.r.limits.halfOpen)
	st.client.SetDeadline(until)
	st.server.SetDeadline(until)
}

// direction copies from one side to the other.
type direction struct {
	st       *stream
	from, to *net.TCPConn
	add      func(packets, bytes uint64)

	pipe     *pipe  // holds the data, or
	buf      []byte // if no pipe can be had
	left     int    // bytes in it
	read     int    // result of the last read
	err      error
	extended time.Time
}

// maxMove is what one splice(2) may move. It is more than a pipe holds.
const maxMove = 1 << 20

func (d *direction) run() {
	defer d.release()
	from, err := d.from.SyscallConn()
	to, err2 := d.to.SyscallConn()
	if err != nil || err2 != nil {
		d.st.abort()
		return
	}
	for {
		// The other direction ends the whole stream if this returns an error.
		err := from.Read(d.fill)
		if err == nil {
			err = d.err
		}
		if err != nil {
			d.st.abort()
			return
		}
		if d.read == 0 {
			d.end()
			return
		}
		d.left = d.read
		for d.left > 0 {
			if err := to.Write(d.empty); err != nil || d.err != nil {
				// The receiver may have answered before it closed, so the other direction
				// goes on until it ends.
				d.st.failed.Store(true)
				d.st.halve()
				return
			}
		}
		d.add(0, uint64(d.read))
		d.alive()
	}
}

// end passes on that the sender has ended, unless it was reset. The kernel reports a reset once: if
// the other direction was told, because it was writing, this one reads an end. Without another
// end before, an ended connection is half closed, and one that was reset is closed.
func (d *direction) end() {
	if d.st.failed.Load() || !d.st.half.Load() && isClosed(d.from) {
		d.st.abort()
		return
	}
	d.st.halve()
	d.to.CloseWrite()
}

// alive gives a half-closed connection more time, as there is data.
func (d *direction) alive() {
	if !d.st.half.Load() {
		return
	}
	if now := time.Now(); now.Sub(d.extended) > d.st.s.r.limits.halfOpen/64 {
		d.extended = now
		d.st.extend()
	}
}

// fill takes what the sender has sent. It is false if there is nothing yet. While it waits it holds
// neither a pipe nor a buffer: most connections are idle.
func (d *direction) fill(fd uintptr) bool {
	pipes := d.st.s.r.pipes
	for {
		if d.pipe == nil && d.buf == nil {
			if d.pipe = pipes.get(); d.pipe == nil {
				d.buf = buffers.Get().(*[bufferSize]byte)[:]
			}
		}
		var n int
		var err error
		if d.pipe != nil {
			var moved int64
			moved, err = unix.Splice(int(fd), nil, d.pipe.w, nil, maxMove, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			n = int(moved)
		} else {
			n, err = unix.Read(int(fd), d.buf)
		}
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			d.release()
			return false
		case d.pipe != nil && (err == unix.EINVAL || err == unix.ENOSYS || err == unix.EPERM):
			pipes.disable() // no splice(2) here, as in some sandboxes
			d.release()
		default:
			d.read, d.err = n, err
			return true
		}
	}
}

// empty gives the data to the receiver. It is false if that takes no more at present.
func (d *direction) empty(fd uintptr) bool {
	for d.left > 0 {
		var n int
		var err error
		if d.pipe != nil {
			var moved int64
			moved, err = unix.Splice(d.pipe.r, nil, int(fd), nil, d.left, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			n = int(moved)
		} else {
			n, err = unix.SendmsgN(int(fd), d.buf[d.read-d.left:d.read], nil, nil, unix.MSG_NOSIGNAL)
		}
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err == nil && n == 0:
			d.err = syscall.EPIPE
			return true
		case err != nil:
			d.err = err
			return true
		default:
			d.left -= n
		}
	}
	return true
}

// isClosed reports whether a connection is over in both directions, as after a reset.
func isClosed(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	closed := true
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
		closed = err != nil || info.State == tcpClose
	})
	return closed
}

// tcpClose is TCP_CLOSE of linux/tcp_states.h.
const tcpClose = 7

// release gives back the pipe or the buffer. A pipe with data in it cannot be used again.
func (d *direction) release() {
	if d.pipe != nil {
		d.st.s.r.pipes.put(d.pipe, d.left == 0)
	}
	if d.buf != nil {
		buffers.Put((*[bufferSize]byte)(d.buf))
	}
	d.pipe, d.buf, d.left = nil, nil, 0
}
