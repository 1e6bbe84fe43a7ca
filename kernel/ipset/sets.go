// Package ipset reads and writes the kernel's IP sets over netlink, with its own codec. It creates,
// fills, swaps and destroys sets in batches, and reads them in raw dumps.
//
// It handles sets, entries and swaps as package kernel describes them, and no other part of ipset:
// no timeouts, counters, comments or lists of sets.
//
// # Errors
//
// Creating a set that exists is EEXIST, whatever the set looks like. Diff has read our sets, so
// another program made it. Adding an entry that exists and removing one that does not are no
// errors, as with `ipset -exist`. So a message with an unknown outcome can be sent again.
package ipset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Sets is the IP sets of one network namespace. One goroutine at a time may use it, but any may
// call Stats.
type Sets struct {
	conn  *nl.Conn
	batch nl.Batch
	spans []span // the ops of each message in batch

	packed, spare []packed // of one set during a reading
}

// Open opens the sets in the network namespace of the calling thread. If the kernel lacks
// netfilter's netlink, the error is a *kernel.MissingError. Available reports whether it has ipset
// and all types that we use.
func Open(d *nl.Dialer) (*Sets, error) {
	conn, err := d.Dial(unix.NETLINK_NETFILTER)
	switch {
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return nil, missing("netfilter's netlink", "nfnetlink")
	case err != nil:
		return nil, fmt.Errorf("opening ipset: %w", err)
	}
	return &Sets{conn: conn}, nil
}

// Close releases the socket.
func (s *Sets) Close() error { return s.conn.Close() }

// Stats counts system calls and messages.
func (s *Sets) Stats() nl.Stats { return s.conn.Stats() }
