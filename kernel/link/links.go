// Package link reads and writes, over rtnetlink, what makes VIPs local: the
// device that they are bound to and the addresses on it, or their routes, and
// the proxy neighbours that have the node answer for them. It reads the facts
// about the node that depend on its other devices, addresses and default
// routes, and tells when they change.
//
// It never changes a route or a proxy neighbour that does not carry our
// protocol, nor a device that is not a dummy, and never the state of one that
// is: the device stays down, where its addresses work all the same. Setting it
// up would add an fe80:: address, setting it down again would delete every IPv6
// address on it (verified on Linux 6.1).
//
// # What is an error
//
// As the kernel has it: what exists is EEXIST, a device that does not is ENODEV,
// an address EADDRNOTAVAIL, a route ESRCH, a proxy neighbour ENOENT.
package link

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// dummy is the kind of device that VIPs are bound to, as IFLA_INFO_KIND has it.
const dummy = "dummy"

// Links are the devices of one network namespace. One goroutine at a time may
// use it; only Stats may be called from any.
type Links struct {
	conn   *nl.Conn
	batch  nl.Batch
	sent   []int           // the op of each message of batch
	handle *netlink.Handle // nil before the first use

	looked, changed atomic.Uint64 // requests made through handle

	kind   string         // of our device: dummy, but for tests
	device device         // ours as last seen; index 0 if not
	names  map[int]string // of all devices at the last Read
	last   int            // index of our device when it was last there

	// Guarded, if set, says of an address whether it is a VIP that is bound. By it a
	// device is found that was renamed while no process knew its index.
	Guarded func(netip.Addr) bool

	// odd has the prefix lengths of addresses on our device that are not a
	// single address each. Somebody added them, and IPv6 ones are only
	// removed by their own length.
	odd map[addrKey]uint8
}

// Open opens the devices of the calling thread's network namespace.
func Open(d *nl.Dialer) (*Links, error) {
	conn, err := d.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening rtnetlink: %w", err)
	}
	return &Links{conn: conn, kind: dummy}, nil
}

// Close releases the sockets.
func (l *Links) Close() error {
	if l.handle != nil {
		l.handle.Close()
		l.handle = nil
	}
	return l.conn.Close()
}

// Stats counts system calls and messages. Any goroutine may call it at any time.
func (l *Links) Stats() nl.Stats {
	looked, changed := l.looked.Load(), l.changed.Load()
	return l.conn.Stats().Plus(nl.Stats{
		Sends: looked + changed, Receives: looked + changed, Queries: looked, Messages: changed,
	})
}
