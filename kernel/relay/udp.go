package relay

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFlows is how many flows a virtual server has. The one whose client has been silent for longest
// ends first.
const maxFlows = 1 << 16

// flows are those of one listener.
type flows struct {
	mu    sync.Mutex
	by    map[netip.AddrPort]*flow // by client
	order list.List                // of *flow, the client silent for longest first
	ended bool
}

// find returns a client's flow, which has just got a datagram, or nil.
func (fs *flows) find(client netip.AddrPort) *flow {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.by[client]
	if f != nil {
		fs.order.MoveToBack(f.at)
	}
	return f
}

// add returns false if the listener has been closed.
func (fs *flows) add(f *flow) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.ended {
		return false
	}
	if fs.by == nil {
		fs.by = map[netip.AddrPort]*flow{}
	}
	f.at = fs.order.PushBack(f)
	fs.by[f.client] = f
	return true
}

func (fs *flows) remove(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.by[f.client] == f {
		delete(fs.by, f.client)
		fs.order.Remove(f.at)
	}
}

func (fs *flows) len() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.order.Len()
}

func (l *listener) endOldest() {
	if f := l.flows.oldest(); f != nil {
		f.end()
	}
}

// oldest is nil if there are none.
func (fs *flows) oldest() *flow {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if front := fs.order.Front(); front != nil {
		return front.Value.(*flow)
	}
	return nil
}

// endFlows ends all flows of a listener that was closed.
func (l *listener) endFlows() {
	l.flows.mu.Lock()
	l.flows.ended = true
	l.flows.mu.Unlock()
	for f := l.flows.oldest(); f != nil; f = l.flows.oldest() {
		f.end()
	}
}

// datagrams takes the datagrams of clients. It never waits for an endpoint.
func (l *listener) datagrams() {
	defer l.s.r.running.Done()
	raw, err := l.udp.SyscallConn()
	if err != nil {
		return
	}
	var in receiver
	read := in.from
	var pause backoff
	for {
		err := raw.Read(read)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil || in.err != nil:
			if !pause.wait(l.done) {
				in.release()
				return
			}
		default:
			pause = 0
			l.deliver(in.client, in.data())
		}
		in.release()
	}
}

// deliver sends a datagram to the endpoint of its flow.
func (l *listener) deliver(client netip.AddrPort, data []byte) {
	f := l.flows.find(client)
	if f == nil {
		f = l.open(client)
	}
	if f == nil || !f.send(data) {
		l.s.r.stats.dropped.Add(1)
	}
}

// open begins a flow. It is nil if no endpoint takes it.
func (l *listener) open(client netip.AddrPort) *flow {
	r := l.s.r
	if l.flows.len() >= r.limits.flows {
		r.short(TooManyFlows)
		l.endOldest()
	}
	if !r.files.take(1) {
		r.short(TooManyConnections)
		l.endOldest()
		if !r.files.take(1) {
			return nil
		}
	}
	f := &flow{l: l, client: client}
	if !f.connect(nil) {
		r.files.give(1)
		r.stats.unreachable.Add(1)
		return nil
	}
	f.touch()
	r.stats.flows.Add(1)
	if !l.flows.add(f) {
		f.end()
		return nil
	}
	// Its endpoint may have been removed before it was added.
	f.mu.Lock()
	ended := f.ended
	f.mu.Unlock()
	if ended {
		l.flows.remove(f)
		return nil
	}
	r.running.Add(1)
	go f.replies()
	return f
}

// receiver reads datagrams. It has a buffer only while there is one to read.
type receiver struct {
	buf    *[bufferSize]byte
	n      int
	client netip.AddrPort
	err    error
}

func (in *receiver) data() []byte { return in.buf[:in.n] }

func (in *receiver) release() {
	if in.buf != nil {
		buffers.Put(in.buf)
		in.buf = nil
	}
}

// from is a callback of syscall.RawConn for a listener: it wants to know the client.
func (in *receiver) from(fd uintptr) bool {
	return in.take(func(b []byte) (int, error) {
		n, from, err := unix.Recvfrom(int(fd), b, 0)
		switch a := from.(type) {
		case *unix.SockaddrInet4:
			in.client = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
		case *unix.SockaddrInet6:
			addr := netip.AddrFrom16(a.Addr)
			if a.ZoneId != 0 {
				addr = addr.WithZone(strconv.FormatUint(uint64(a.ZoneId), 10))
			}
			in.client = netip.AddrPortFrom(addr, uint16(a.Port))
		}
		return n, err
	})
}

// reply is one for a connected socket.
func (in *receiver) reply(fd uintptr) bool {
	return in.take(func(b []byte) (int, error) { return unix.Read(int(fd), b) })
}

func (in *receiver) take(read func([]byte) (int, error)) bool {
	in.buf = buffers.Get().(*[bufferSize]byte)
	for {
		switch in.n, in.err = read(in.buf[:]); in.err {
		case unix.EINTR:
		case unix.EAGAIN:
			in.release()
			return false
		default:
			in.n = max(in.n, 0)
			return true
		}
	}
}
