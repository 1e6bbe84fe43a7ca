package nl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// MaxMessages is the largest number of messages in one send. If all fail, the replies must fit
	// in a receive buffer of default size, which holds 277 (measured on Linux 6.1).
	MaxMessages = 250

	// MaxSend is the largest send in bytes; a longer message goes alone. When loading IPVS on Linux
	// 6.1, 64 KiB are as fast as the largest send that the default buffer takes (212,960 bytes),
	// with a smaller allocation in the kernel.
	MaxSend = 64 << 10
)

// receiveSize is the room for one datagram in bytes. The kernel makes datagrams of a dump as large
// as the last receive asked for, up to 32 KiB. A subsystem's own reply may return a request of 64
// KiB.
const receiveSize = 128 << 10

// rooms has the buffers that no Conn uses now. A program has about a dozen Conns open as long as it
// runs, and one or two that wait for an answer.
var rooms = sync.Pool{New: func() any { return new([receiveSize]byte) }}

// shortSize returns the room in bytes for a datagram of a short dump. The kernel makes them at
// least NLMSG_GOODSIZE, which is less than a page.
func shortSize() int { return min(os.Getpagesize(), 8<<10) }

// Stats counts what a Conn did since Dial.
type Stats struct {
	Sends    uint64 // datagrams sent, one system call each
	Receives uint64 // datagrams received and failed attempts, one system call each
	Messages uint64 // messages sent by Send, which may have changed the kernel
	Queries  uint64 // requests sent by Get and Dump
}

// Plus returns the sum.
func (s Stats) Plus(o Stats) Stats {
	return Stats{s.Sends + o.Sends, s.Receives + o.Receives, s.Messages + o.Messages, s.Queries + o.Queries}
}

// Conn is a netlink connection. One goroutine at a time may use it, but any may call Stats. After a
// failure the next call opens a new socket.
type Conn struct {
	dial func() (Transport, error)
	t    Transport // nil after a failure
	seq  uint32
	room []byte // for one datagram; nil if the Conn borrows it

	sends, receives, messages, queries atomic.Uint64
}

// Dial opens a connection to a netlink family (unix.NETLINK_GENERIC, _NETFILTER, _ROUTE) in the
// network namespace of the calling thread.
func (d *Dialer) Dial(family int) (*Conn, error) { return d.open(family, nil) }

// DialShort is Dial for many dumps of a few messages each. The kernel allocates the parts of a dump
// as large as the largest buffer of the reader so far. With 32 KiB or more, a dump of five real
// servers takes twice the instructions (Linux 6.1).
func (d *Dialer) DialShort(family int) (*Conn, error) {
	return d.open(family, make([]byte, shortSize()))
}

func (d *Dialer) open(family int, room []byte) (*Conn, error) {
	c := &Conn{room: room, dial: func() (Transport, error) {
		s, err := openSocket(family)
		if err != nil {
			return nil, err
		}
		if d != nil && d.Wrap != nil {
			return d.Wrap(family, s), nil
		}
		return s, nil
	}}
	return c, c.connect()
}

// Close releases the socket. A later call would open another one.
func (c *Conn) Close() error {
	if c.t == nil {
		return nil
	}
	t := c.t
	c.t = nil
	return t.Close()
}

// Stats returns the counts so far. Any goroutine may call it at any time.
func (c *Conn) Stats() Stats {
	return Stats{
		Sends:    c.sends.Load(),
		Receives: c.receives.Load(),
		Messages: c.messages.Load(),
		Queries:  c.queries.Load(),
	}
}

// Send sends every message of the batch, at most MaxMessages and MaxSend at a time, and waits until
// the kernel has handled them. A rejected message does not stop the ones after it. The error is nil
// or a *BatchError. If the batch itself is malformed, it is another error and nothing was sent.
func (c *Conn) Send(b *Batch) error {
	if err := b.ready(); err != nil {
		return err
	}
	var failed []MessageError
	for i := 0; i < b.Len(); {
		j := b.chunk(i)
		var err error
		failed, err = c.exchange(b, i, j, j-1, failed, nil)
		if err != nil {
			failed = spread(failed, i, j, fmt.Errorf("%w: %w", ErrUnknown, err))
			if !errors.Is(err, unix.ENOBUFS) {
				failed = spread(failed, j, b.Len(), fmt.Errorf("%w: %w", ErrUnsent, err))
				break
			}
		}
		i = j
	}
	if len(failed) == 0 {
		return nil
	}
	slices.SortFunc(failed, func(x, y MessageError) int { return x.Index - y.Index })
	return &BatchError{Sent: b.Len(), Messages: failed}
}

// Echo is called with the type and the payload of a message. The payload is valid during the call.
type Echo func(typ uint16, payload []byte)

// Commit sends the messages of the batch as one transaction of nftables: all take effect, or none. The caller begins it
// with NFNL_MSG_BATCH_BEGIN and ends it with NFNL_MSG_BATCH_END. It is one datagram of any length. The error is a
// *BatchError with the first refusal; that of the first message is the transaction's as a whole. echo, unless nil, is
// called with what the kernel answers to messages with NLM_F_ECHO.
func (c *Conn) Commit(b *Batch, echo Echo) error {
	if err := b.ready(); err != nil {
		return err
	}
	// Before Linux 6.10 the kernel acknowledges the end of no transaction.
	failed, err := c.exchange(b, 0, b.Len(), b.Len()-2, nil, echo)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return &BatchError{Sent: b.Len(), Messages: failed[:1]}
	}
	return nil
}

// chunk returns the end of the messages from i on that go in one send.
func (b *Batch) chunk(i int) int {
	j := i + 1
	for j < b.Len() && j-i < MaxMessages && len(b.span(i, j+1)) <= MaxSend {
		j++
	}
	return j
}

// exchange sends messages i to j-1 in one datagram and collects errors until message end is answered. If that is
// not the last one, they are a transaction, and its first error is the answer. A non-nil error means that answers
// to this datagram are lost.
func (c *Conn) exchange(b *Batch, i, j, end int, failed []MessageError, echo Echo) ([]MessageError, error) {
	if err := c.connect(); err != nil {
		return failed, err
	}
	first := c.seq + 1
	for k := i; k < j; k++ {
		b.stamp(k, first+uint32(k-i), k == end, 0)
	}
	c.seq += uint32(j - i)
	c.messages.Add(uint64(j - i))
	if err := c.send(b.span(i, j)); err != nil {
		return failed, err
	}
	room := c.borrow()
	defer c.giveBack(room)
	for last := false; !last; {
		p, err := c.receive(room)
		if err != nil {
			return failed, err
		}
		for len(p) > 0 {
			var m message
			if m, p, err = cut(p); err != nil {
				return failed, c.fail("reading a reply", err)
			}
			k := int(m.seq - first)                       // out of range for a foreign sequence number
			if m.typ != unix.NLMSG_ERROR && echo != nil { // of an element it has sequence number 0 (Linux 6.18)
				echo(m.typ, m.payload)
			}
			if m.typ != unix.NLMSG_ERROR || m.seq-first >= uint32(j-i) {
				continue
			}
			refusal, echo, err := m.refusal()
			if err != nil {
				return failed, c.fail("reading a reply", err)
			}
			if refusal != nil {
				failed = append(failed, MessageError{Index: i + k, Err: refusal, Echo: echo})
			}
			last = last || i+k == end || refusal != nil && end < j-1
		}
	}
	return failed, nil
}

// spread gives err to the messages i to j-1 that have no error yet.
func spread(failed []MessageError, i, j int, err error) []MessageError {
	known := make(map[int]bool, len(failed))
	for _, f := range failed {
		known[f.Index] = true
	}
	for k := i; k < j; k++ {
		if !known[k] {
			failed = append(failed, MessageError{Index: k, Err: err})
		}
	}
	return failed
}

// connect opens the transport unless it is open.
func (c *Conn) connect() error {
	if c.t != nil {
		return nil
	}
	t, err := c.dial()
	if err != nil {
		return err
	}
	c.t = t
	return nil
}

func (c *Conn) send(p []byte) error {
	c.sends.Add(1)
	if err := c.t.Send(p); err != nil {
		return c.fail("sending", err)
	}
	return nil
}

// borrow returns the buffer for the answers to one request.
func (c *Conn) borrow() []byte {
	if c.room != nil {
		return c.room
	}
	return rooms.Get().(*[receiveSize]byte)[:]
}

func (c *Conn) giveBack(room []byte) {
	if c.room == nil {
		rooms.Put((*[receiveSize]byte)(room))
	}
}

func (c *Conn) receive(room []byte) ([]byte, error) {
	c.receives.Add(1)
	n, err := c.t.Receive(room)
	if err != nil {
		return nil, c.fail("receiving", err)
	}
	return room[:n], nil
}

// fail closes the transport after an error. After an overflow the kernel drops all replies until
// the queue is empty, and it goes on delivering an abandoned dump. A new socket has neither
// problem.
func (c *Conn) fail(doing string, err error) error {
	c.Close()
	return fmt.Errorf("%s on a netlink socket: %w", doing, err)
}

// message is one netlink message of a received datagram.
type message struct {
	typ, flags uint16
	seq        uint32
	payload    []byte
}

// cut splits the first message from p.
func cut(p []byte) (m message, rest []byte, err error) {
	if len(p) < unix.SizeofNlMsghdr {
		return m, nil, fmt.Errorf("netlink message: %d bytes left over", len(p))
	}
	n := binary.NativeEndian.Uint32(p)
	if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(p)) {
		return m, nil, fmt.Errorf("netlink message: length %d with %d bytes left", n, len(p))
	}
	m = message{
		typ:     binary.NativeEndian.Uint16(p[4:]),
		flags:   binary.NativeEndian.Uint16(p[6:]),
		seq:     binary.NativeEndian.Uint32(p[8:]),
		payload: p[unix.SizeofNlMsghdr:n],
	}
	return m, p[min(align(int(n)), len(p)):], nil
}

// refusal decodes an NLMSG_ERROR. It returns nil for an acknowledgement, else the kernel's error,
// and the request if the kernel sent it back.
func (m message) refusal() (*KernelError, []byte, error) {
	p := m.payload
	if len(p) < unix.SizeofNlMsgerr {
		return nil, nil, fmt.Errorf("netlink error reply of %d bytes", len(p))
	}
	code := int32(binary.NativeEndian.Uint32(p))
	if code == 0 {
		return nil, nil, nil
	}
	e := &KernelError{Errno: unix.Errno(-int64(code))}
	p = p[4:]
	end := unix.SizeofNlMsghdr
	var echo []byte
	if m.flags&unix.NLM_F_CAPPED == 0 {
		n := binary.NativeEndian.Uint32(p)
		if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(p)) {
			return nil, nil, fmt.Errorf("netlink error reply: a request of %d bytes in %d", n, len(p))
		}
		echo = slices.Clone(p[:n])
		end = min(align(int(n)), len(p))
	}
	if m.flags&unix.NLM_F_ACK_TLVS != 0 {
		a := ParseAttrs(p[end:])
		for a.Next() {
			switch a.Type() {
			case unix.NLMSGERR_ATTR_MSG:
				e.Text = a.Text()
			case unix.NLMSGERR_ATTR_OFFS:
				e.Offset = a.U32()
			}
		}
		if a.Err() != nil {
			return nil, nil, a.Err()
		}
	}
	return e, echo, nil
}
