// Package conntrack deletes entries of the kernel's connection tracking, over
// netlink with a codec of its own: those of a virtual server that lead to one
// real server.
//
// An entry outlives what it was made by. As long as a client goes on sending,
// its datagrams follow the entry to a real server that is gone; TCP would be
// reset instead. So a removed real server's entries have to be removed with it.
//
// It refuses everything else that connection tracking offers: it neither lists
// entries nor changes any, and has no word for "all".
//
// # How entries are found
//
// The kernel is asked for one virtual server's entries and passes the others
// over (CTA_FILTER, Linux 5.8), which saves copying them out. For many virtual
// servers at once, and on older kernels, which ignore the question and send
// everything, one dump of the family is looked through instead. Whatever the
// kernel sends is compared again, so no answer can make a wrong entry go.
package conntrack

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Table is the connection tracking of one network namespace. One goroutine at a
// time may use it; only Stats, Deleted and Took may be called
// from any.
type Table struct {
	conn    *nl.Conn
	query   nl.Batch
	deletes nl.Batch
	doomed  []int // the op of each message of deletes

	ignoresFilter bool // the kernel answered more than it was asked

	swept4, swept6 swept
}

// swept is what became of one family's entries since Open.
type swept struct {
	deleted atomic.Uint64
	took    atomic.Int64 // ns
}

// Open opens the connection tracking of the calling thread's network namespace.
// Where the kernel has none, or no netlink for it, the error is a
// *kernel.MissingError.
func Open(d *nl.Dialer) (*Table, error) {
	conn, err := d.Dial(unix.NETLINK_NETFILTER)
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return nil, missing("netfilter's netlink", "nfnetlink")
	case err != nil:
		return nil, fmt.Errorf("opening conntrack: %w", err)
	}
	t := &Table{conn: conn}
	if err := t.available(); err != nil {
		conn.Close()
		return nil, err
	}
	return t, nil
}

// available asks for the number of entries, which loads what is needed.
func (t *Table) available() error {
	t.query.Reset()
	t.query.Begin(msgStats, 0)
	t.query.Nfgen(unix.AF_UNSPEC)
	t.query.End()
	err := t.conn.Get(&t.query, func([]byte) error { return nil })
	switch {
	case errors.Is(err, unix.EINVAL): // nfnetlink knows no such subsystem
		return missing("netlink for connection tracking", "nf_conntrack_netlink")
	case err != nil:
		return fmt.Errorf("asking the kernel for conntrack: %w", err)
	}
	return nil
}

func missing(what, module string) error {
	return &kernel.MissingError{
		What: fmt.Sprintf("this kernel has no %s (module %s)", what, module),
		Hint: "modprobe " + module,
	}
}

// Close releases the socket.
func (t *Table) Close() error { return t.conn.Close() }

// Stats counts system calls and messages.
func (t *Table) Stats() nl.Stats { return t.conn.Stats() }

// Deleted counts the entries of a family that were deleted since Open.
func (t *Table) Deleted(f kernel.Family) uint64 { return t.swept(f).deleted.Load() }

// Took is how long looking for a family's entries and deleting them has taken since Open.
func (t *Table) Took(f kernel.Family) time.Duration { return time.Duration(t.swept(f).took.Load()) }

func (t *Table) swept(f kernel.Family) *swept {
	if f == kernel.IPv4 {
		return &t.swept4
	}
	return &t.swept6
}
