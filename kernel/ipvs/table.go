package ipvs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// ErrUnavailable is the error if this kernel has no IPVS and cannot load it.
var ErrUnavailable error = &kernel.MissingError{
	What: "this kernel has no IPVS",
	Hint: "modprobe ip_vs, or run a kernel that has it",
}

// Table is the IPVS tables of one network namespace. One goroutine at a time may use it, but any
// may call Stats.
type Table struct {
	conn   *nl.Conn
	short  *nl.Conn // for dumps of the real servers of one virtual server
	family uint16   // message type; 0 if it must be looked up
	opt    *sockopt
	proc   proc
	batch  nl.Batch
	names  names
	dests  []dest // reused by dumpDests
	gue    gue
	limits limits
	bound  map[kernel.SyncRole]int // the index of the link that each daemon of connection sync is bound to

	lookups int // number of look-ups of IPv6 virtual servers by QuickCheck
}

// Stats counts the system calls and messages of a Table.
type Stats struct {
	nl.Stats
	Getsockopts uint64
}

// Open opens the tables in the network namespace of the calling thread and makes the kernel load
// IPVS. If the kernel has none, the error is ErrUnavailable.
func Open(d *nl.Dialer) (*Table, error) {
	conn, err := d.Dial(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("opening ipvs: %w", err)
	}
	t := &Table{conn: conn, names: names{}, limits: limits{of: map[kernel.VirtualKey]bool{}}}
	t.short, err = d.DialShort(unix.NETLINK_GENERIC)
	if err == nil {
		t.opt, err = openSockopt()
	}
	if err == nil {
		err = t.lookup()
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("opening ipvs: %w", err)
	}
	// The file exists only now. Without it, dumps are used.
	t.proc, _ = openProc()
	return t, nil
}

// Close releases the sockets.
func (t *Table) Close() error {
	err := errors.Join(t.conn.Close(), t.proc.close())
	if t.short != nil {
		err = errors.Join(err, t.short.Close())
	}
	if t.opt != nil {
		err = errors.Join(err, t.opt.close())
	}
	return err
}

// Stats may be called at any time from any goroutine.
func (t *Table) Stats() Stats {
	return Stats{Stats: t.conn.Stats().Plus(t.short.Stats()), Getsockopts: t.opt.calls.Load()}
}

// lookup looks up the message type unless it is known. It is forgotten after a failure, because it
// changes when the module is unloaded and loaded again.
func (t *Table) lookup() error {
	if t.family != 0 {
		return nil
	}
	id, err := nl.Family(familyName)
	if errors.Is(err, nl.ErrNoFamily) {
		return ErrUnavailable
	}
	t.family = id
	return err
}

// unloaded turns the error that getsockopt returns without the module into ErrUnavailable.
func (t *Table) unloaded(err error) error {
	if errors.Is(err, unix.ENOPROTOOPT) {
		t.family = 0
		return ErrUnavailable
	}
	return err
}
