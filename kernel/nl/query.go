package nl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// attempts is how often a dump is tried if the table changes meanwhile or the kernel is busy. If
// another program writes without a pause, no number is enough, and the caller tries again in its
// next sync.
const attempts = 5

// Get sends the only message of the batch and calls each with the payload of every message in the
// answer. The payload is valid during the call. If the kernel rejects the message, the error is a
// *KernelError.
func (c *Conn) Get(b *Batch, each func(payload []byte) error) error {
	return c.query(b, 0, each)
}

// Dump sends the only message of the batch as a dump request and calls each with the payload of
// every message in the answer. The payload is valid during the call.
//
// If the table changed meanwhile, Dump calls restart and begins again, a few times. If that does
// not help, or restart is nil, the error is ErrInterrupted. An error of each is returned after the
// rest of the dump was received.
func (c *Conn) Dump(b *Batch, restart func(), each func(payload []byte) error) error {
	for try := 1; ; try++ {
		err := c.query(b, unix.NLM_F_DUMP, each)
		again := errors.Is(err, ErrInterrupted) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOBUFS)
		if !again || restart == nil || try == attempts {
			return err
		}
		// EBUSY: another dump holds the table, for some milliseconds.
		if errors.Is(err, unix.EBUSY) {
			time.Sleep(time.Duration(try) * time.Millisecond)
		}
		restart()
	}
}

func (c *Conn) query(b *Batch, flags uint16, each func([]byte) error) error {
	if err := b.ready(); err != nil {
		return err
	}
	if b.Len() != 1 {
		return fmt.Errorf("netlink query: %d messages where one belongs", b.Len())
	}
	if err := c.connect(); err != nil {
		return err
	}
	c.seq++
	c.queries.Add(1)
	// A dump ends with NLMSG_DONE, every other answer with the acknowledgement.
	b.stamp(0, c.seq, flags == 0, flags)
	if err := c.send(b.buf); err != nil {
		return err
	}
	room := c.borrow()
	defer c.giveBack(room)
	q := query{seq: c.seq, each: each}
	for !q.done {
		p, err := c.receive(room)
		if err != nil {
			return err
		}
		if err := q.datagram(p); err != nil {
			return c.fail("reading a reply", err)
		}
	}
	if q.err == nil && q.interrupted {
		return ErrInterrupted
	}
	return q.err
}

// query receives the answer to one request.
type query struct {
	seq         uint32
	each        func([]byte) error
	err         error // from the kernel, or from each
	interrupted bool
	done        bool
}

// datagram handles one datagram. An error means that it cannot be decoded.
func (q *query) datagram(p []byte) error {
	for len(p) > 0 && !q.done {
		m, rest, err := cut(p)
		if err != nil {
			return err
		}
		p = rest
		if m.seq != q.seq {
			continue
		}
		q.interrupted = q.interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
		switch m.typ {
		case unix.NLMSG_ERROR:
			refusal, _, err := m.refusal()
			if err != nil {
				return err
			}
			if refusal != nil {
				q.fail(refusal)
			}
			q.done = true
		case unix.NLMSG_DONE:
			if code := m.doneCode(); code != 0 {
				q.fail(&KernelError{Errno: code})
			}
			q.done = true
		case unix.NLMSG_NOOP:
		default:
			if q.err == nil {
				q.fail(q.each(m.payload))
			}
		}
	}
	return nil
}

func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// doneCode returns the error that a dump ended with, or 0. Old kernels send no code.
func (m message) doneCode() unix.Errno {
	if len(m.payload) < 4 {
		return 0
	}
	if code := int32(binary.NativeEndian.Uint32(m.payload)); code < 0 {
		return unix.Errno(-int64(code))
	}
	return 0
}
