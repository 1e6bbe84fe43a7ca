package ipvs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// ErrUnavailable says that this kernel has no IPVS and could not load it.
var ErrUnavailable error = &kernel.MissingError{
	What: "this kernel has no IPVS",
	Hint: "modprobe ip_vs, or run a kernel that has it",
}

// Table is the IPVS tables of one network namespace. One goroutine at a time may use it; only
// Stats may be called from any.
type Table struct {
	conn   *nl.Conn
	short  *nl.Conn // for the dumps of one virtual server's real servers each
	family uint16   // 0: to be asked for
	opt    *sockopt
	proc   proc
	batch  nl.Batch
	names  names
	dests  []dest // reused by dumpDests

	glances int // at IPv6 virtual servers
}

// Stats counts what a Table did.
type Stats struct {
	nl.Stats
	Getsockopts uint64
}

// Open opens the tables of the calling thread's network namespace. The kernel is made to load
// IPVS; if it has none the error is ErrUnavailable.
func Open(d *nl.Dialer) (*Table, error) {
	conn, err := d.Dial(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("opening ipvs: %w", err)
	}
	t := &Table{conn: conn, names: names{}}
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
	// Only now is it there; without it there are the dumps.
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

// lookup learns the message type unless it is known. It is forgotten after a failure, because
// unloading and loading the module changes it.
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

// Version is the version of the kernel's IPVS, "1.2.1" for the last twenty years.
func (t *Table) Version() (string, error) {
	v, _, err := t.opt.info()
	if err != nil {
		return "", fmt.Errorf("reading the ipvs version: %w", t.unloaded(err))
	}
	return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff), nil
}

// unloaded makes ErrUnavailable of what getsockopt says without the module.
func (t *Table) unloaded(err error) error {
	if errors.Is(err, unix.ENOPROTOOPT) {
		t.family = 0
		return ErrUnavailable
	}
	return err
}
