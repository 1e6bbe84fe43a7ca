// Package ipset reads and writes the kernel's IP sets, over netlink with a codec
// of its own: sets are created, filled, swapped and destroyed in batches, and
// read back in raw dumps.
//
// It handles sets, entries and swaps as package kernel describes them and
// refuses the rest of ipset: timeouts, counters, comments, lists of sets. It
// decides nothing: what to write is in the ops, what is ours in the names.
//
// # What is an error
//
// Creating a set that exists is EEXIST, whatever it looks like: Diff has read
// the sets, so one that it did not see is somebody else's. Adding an entry that
// exists and removing one that does not are fine, as they are for `ipset
// -exist`, so that a message can be sent again whose outcome is in doubt.
package ipset

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Sets are the IP sets of one network namespace. One goroutine at a time may
// use it; only Stats may be called from any.
type Sets struct {
	conn  *nl.Conn
	batch nl.Batch
	spans []span // what each message of batch is about

	packed, spare []packed // of one set while it is read
}

// Open opens the sets of the calling thread's network namespace. A kernel
// without netfilter's netlink is a *kernel.MissingError; whether it has ipset,
// and all its types that we use, is for Available to say.
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
