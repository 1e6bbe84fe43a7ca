package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// SyncDaemons returns the daemons of connection sync that run in this network namespace, sorted.
// Every sync reads them, and mostly there are none: then it is a single getsockopt.
func (t *Table) SyncDaemons() ([]kernel.SyncDaemon, error) {
	running, err := t.opt.syncs()
	if err == nil && running {
		var all []kernel.SyncDaemon
		if all, err = t.dumpDaemons(); err == nil {
			t.findUnbound(all)
			return all, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the daemons of connection sync: %w", t.unloaded(err))
	}
	t.findUnbound(nil)
	return nil, nil
}

// findUnbound finds the daemons whose link is gone. The kernel binds a daemon's socket to the index of its link and
// tells only the name, so the index of the first reading or of the start is kept. An earlier replacement is not
// detected.
func (t *Table) findUnbound(daemons []kernel.SyncDaemon) {
	for role := range t.bound {
		if !slices.ContainsFunc(daemons, func(d kernel.SyncDaemon) bool { return d.Role == role }) {
			delete(t.bound, role)
		}
	}
	for i := range daemons {
		d := &daemons[i]
		now := t.opt.linkIndex(d.Link)
		if was, known := t.bound[d.Role]; !known && now != 0 {
			t.bind(d.Role, now)
		} else {
			d.Unbound = now != was || now == 0
		}
	}
}

func (t *Table) bind(r kernel.SyncRole, link int) {
	if t.bound == nil {
		t.bound = map[kernel.SyncRole]int{}
	}
	t.bound[r] = link
}

func (t *Table) dumpDaemons() (all []kernel.SyncDaemon, err error) {
	if err := t.lookup(); err != nil {
		return nil, err
	}
	t.batch.Reset()
	t.batch.Begin(t.family, 0)
	t.batch.Genl(cmdGetDaemon, familyVersion)
	t.batch.End()
	err = t.short.Dump(&t.batch, func() { all = all[:0] }, func(payload []byte) error {
		d, err := decodeDaemon(payload)
		if err == nil {
			all = append(all, d)
		}
		return err
	})
	kernel.SortFunc(all, kernel.SyncDaemon.Compare)
	return all, t.stale(err)
}

// decodeDaemon decodes an IPVS_CMD_NEW_DAEMON message of a dump. Kernels before 4.3 say only role, link
// and ID: the rest could not be chosen there.
func decodeDaemon(payload []byte) (kernel.SyncDaemon, error) {
	a, err := nested(payload, attrDaemon)
	if err != nil {
		return kernel.SyncDaemon{}, err
	}
	d := kernel.SyncDaemon{Group: netip.AddrFrom4([4]byte{224, 0, 0, 81}), Port: 8848, TTL: 1}
	for a.Next() {
		switch a.Type() {
		case daemonState:
			d.Role = kernel.SyncRole(a.U32())
		case daemonLink:
			d.Link = a.Text()
		case daemonID:
			d.ID = uint8(a.U32())
		case daemonMaxLen:
			d.MaxLen = a.U16()
		case daemonGroup:
			d.Group, err = address(kernel.IPv4, a.Bytes())
		case daemonGroup6:
			d.Group, err = address(kernel.IPv6, a.Bytes())
		case daemonPort:
			d.Port = a.U16()
		case daemonTTL:
			d.TTL = a.U8()
		}
		if err != nil {
			return kernel.SyncDaemon{}, err
		}
	}
	return d, a.Err()
}

// StartSync starts a daemon. The kernel starts it before it answers.
func (t *Table) StartSync(d kernel.SyncDaemon) error {
	if err := t.lookup(); err != nil {
		return err
	}
	t.batch.Reset()
	putDaemon(&t.batch, t.family, d)
	link := t.opt.linkIndex(d.Link)
	err := t.sendDaemon(d.Role, d.Link)
	if err == nil {
		t.bind(d.Role, link)
	}
	return err
}

// StopSync stops the daemon of a role. A question that changes nothing follows in the same send, and
// its answer says that the stop is done: a stop is not acknowledged if the daemon's thread has not run
// yet. kthread_stop returns EINTR then, and netlink_rcv_skb of net/netlink/af_netlink.c answers that
// errno with nothing.
func (t *Table) StopSync(r kernel.SyncRole) error {
	if err := t.lookup(); err != nil {
		return err
	}
	t.batch.Reset()
	t.batch.Begin(t.family, 0)
	t.batch.Genl(cmdDelDaemon, familyVersion)
	m := t.batch.Nest(attrDaemon)
	t.batch.U32(daemonState, uint32(r))
	t.batch.EndNest(m)
	t.batch.End()
	t.batch.Begin(t.family, 0)
	t.batch.Genl(cmdGetInfo, familyVersion)
	t.batch.End()
	return t.sendDaemon(r, "")
}

func putDaemon(b *nl.Batch, family uint16, d kernel.SyncDaemon) {
	b.Begin(family, 0)
	b.Genl(cmdNewDaemon, familyVersion)
	m := b.Nest(attrDaemon)
	b.U32(daemonState, uint32(d.Role))
	b.Text(daemonLink, d.Link)
	b.U32(daemonID, uint32(d.ID))
	if d.MaxLen != 0 {
		b.U16(daemonMaxLen, d.MaxLen)
	}
	if d.Group.Is4() {
		b.Attr(daemonGroup, d.Group.AsSlice())
	} else {
		b.Attr(daemonGroup6, d.Group.AsSlice())
	}
	b.U16(daemonPort, d.Port)
	b.U8(daemonTTL, d.TTL)
	b.EndNest(m)
	b.End()
}

// sendDaemon sends the batch, and returns the kernel's error in words.
func (t *Table) sendDaemon(r kernel.SyncRole, link string) error {
	err := t.stale(t.conn.Send(&t.batch))
	var refused *nl.KernelError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nl.ErrUnknown):
		return fmt.Errorf("%w (%w)", kernel.ErrUnknownOutcome, err)
	case !errors.As(err, &refused):
		return err
	}
	switch refused.Errno {
	case unix.EEXIST:
		return fmt.Errorf("there is a sync daemon of role %s already (%w)", r, err)
	case unix.ESRCH:
		return fmt.Errorf("no sync daemon of role %s runs (%w)", r, err)
	case unix.ENODEV:
		return fmt.Errorf("there is no link %s for connection sync (%w)", link, err)
	case unix.EINVAL:
		return fmt.Errorf("the kernel syncs no connections while an IPv4 virtual server has IPv6 real servers, or the "+
			"reverse (%w)", err)
	}
	return err
}
