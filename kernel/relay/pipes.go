package relay

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// pipes are what splice(2) moves data through: from a socket into a pipe, from the pipe into the
// other socket. A connection has one only while data is on its way.
type pipes struct {
	left  atomic.Int64 // how many more there may be
	off   atomic.Bool
	short func() // counts that the kernel gave none
	mu    sync.Mutex
	idle  []*pipe
}

type pipe struct{ r, w int }

const (
	maxIdlePipes = 64
	// pipeSize is in bytes. Linux allocates pages only for data that is there. BenchmarkBytes
	// passes on 840 MB/s, with 64 KiB 620 and with 1 MiB 500.
	pipeSize = 256 << 10
)

func newPipes(most int, short func()) *pipes {
	p := &pipes{short: short}
	p.left.Store(int64(most))
	return p
}

// get returns an empty pipe, or nil if there are too many.
func (p *pipes) get() *pipe {
	if p.off.Load() {
		return nil
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		one := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return one
	}
	p.mu.Unlock()
	if p.left.Add(-1) < 0 {
		p.left.Add(1)
		return nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		p.left.Add(1)
		p.short()
		return nil
	}
	// The kernel may refuse: a user without privileges has a share of all pipes' memory.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	return &pipe{r: fds[0], w: fds[1]}
}

// put gives back a pipe that is empty, or closes it.
func (p *pipes) put(one *pipe, empty bool) {
	p.mu.Lock()
	keep := empty && len(p.idle) < maxIdlePipes && !p.off.Load()
	if keep {
		p.idle = append(p.idle, one)
	}
	p.mu.Unlock()
	if !keep {
		p.end(one)
	}
}

func (p *pipes) end(one *pipe) {
	unix.Close(one.r)
	unix.Close(one.w)
	p.left.Add(1)
}

// disable lets all connections use buffers.
func (p *pipes) disable() { p.off.Store(true) }

// close closes the idle ones, when no connection has one.
func (p *pipes) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.idle {
		p.end(one)
	}
	p.idle = nil
}

// bufferSize is enough for any datagram.
const bufferSize = 1 << 16

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
