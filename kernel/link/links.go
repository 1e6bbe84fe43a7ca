// Package link reads and writes what makes VIPs local, over rtnetlink: the device that they are
// bound to, the addresses on it, local routes, and the proxy neighbours that make the node answer
// for VIPs. It also reads the facts about the node that come from its other devices, addresses and
// default routes, and reports changes of them.
//
// It changes only routes and proxy neighbours with our protocol, and only dummy devices. It never
// changes the state of a device. Ours stays down, and its addresses still work. Setting it up
// would add an fe80:: address, and setting it down again would delete all its IPv6 addresses
// (verified on Linux 6.1).
//
// # Errors
//
// Errors are those of the kernel: EEXIST for an object that exists, ENODEV for a missing device,
// EADDRNOTAVAIL for a missing address, ESRCH for a missing route, ENOENT for a missing proxy
// neighbour.
package link

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// dummy is the kind of device that VIPs are bound to (IFLA_INFO_KIND).
const dummy = "dummy"

// Links is the devices of one network namespace. One goroutine at a time may use it, but any may
// call Stats.
type Links struct {
	conn   *nl.Conn
	batch  nl.Batch
	sent   []int           // the op of each message in batch
	handle *netlink.Handle // nil before the first use

	looked, changed atomic.Uint64 // requests made through handle

	kind   string         // of our device: dummy, except in tests
	device device         // our device at the last reading; index 0 if it did not exist
	names  map[int]string // of all devices at the last Read, by index
	last   int            // the last index that our device had

	// Guarded reports whether an address is a VIP in our sets. It may be nil. Links uses it to find
	// our device if it was renamed while no svcproxy ran.
	Guarded func(netip.Addr) bool

	// odd has the prefix lengths of addresses on our device that are not single addresses. Another
	// program added them. An IPv6 address can only be removed with its own length.
	odd map[addrKey]uint8
}

// Open opens the devices in the network namespace of the calling thread.
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
