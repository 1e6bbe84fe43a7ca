// Package conntrack deletes entries of the kernel's connection tracking over netlink, with its own
// codec: those of a virtual server that lead to one real server. It also lists TCP connections.
//
// An entry outlives the rule or the virtual server that made it. While a client keeps sending, its
// datagrams follow the entry to a real server that is gone. TCP would be reset instead. So the
// entries of a removed real server must be removed with it.
//
// The package offers no other part of connection tracking: it changes no entry, and it cannot
// delete all of them.
//
// # How entries are found
//
// The kernel is asked for the entries of one virtual server and skips the others (CTA_FILTER, Linux
// 5.8), which saves copying them. For many virtual servers, one dump of the family is searched
// instead. Older kernels ignore the filter and send everything. Each entry is compared again, so no
// answer can delete a wrong entry.
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

// Table is the connection tracking of one network namespace. One goroutine at a time may use it,
// but any may call Stats, Deleted and Took.
type Table struct {
	conn    *nl.Conn
	query   nl.Batch
	deletes nl.Batch
	queued  []int // the op of each message in deletes

	ignoresFilter bool // the kernel sent more than it was asked for

	swept4, swept6 swept
}

// swept counts what happened to the entries of one family since Open.
type swept struct {
	deleted atomic.Uint64
	took    atomic.Int64 // in nanoseconds
}

// Open opens the connection tracking of the calling thread's network namespace. If the kernel lacks
// it, or its netlink interface, the error is a *kernel.MissingError.
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

// available asks for the number of entries, which makes the kernel load the modules.
func (t *Table) available() error {
	t.query.Reset()
	t.query.Begin(msgStats, 0)
	t.query.Nfgen(unix.AF_UNSPEC)
	t.query.End()
	err := t.conn.Get(&t.query, func([]byte) error { return nil })
	switch {
	case errors.Is(err, unix.EINVAL): // nfnetlink has no such subsystem
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

// Deleted returns the number of deleted entries of a family since Open.
func (t *Table) Deleted(f kernel.Family) uint64 { return t.swept(f).deleted.Load() }

// Took returns the time spent on finding and deleting the entries of a family since Open.
func (t *Table) Took(f kernel.Family) time.Duration { return time.Duration(t.swept(f).took.Load()) }

func (t *Table) swept(f kernel.Family) *swept {
	if f == kernel.IPv4 {
		return &t.swept4
	}
	return &t.swept6
}
