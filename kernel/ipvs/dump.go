package ipvs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
)

// dumpServices returns all IPv6 virtual servers.
func (t *Table) dumpServices() (all []service, err error) {
	if err := t.lookup(); err != nil {
		return nil, err
	}
	t.batch.Reset()
	t.batch.Begin(t.family, 0)
	t.batch.Genl(cmdGetService, familyVersion)
	t.batch.End()
	err = t.conn.Dump(&t.batch, func() { all = all[:0] }, func(payload []byte) error {
		if ipv4(payload) {
			return nil
		}
		s, err := decodeService(payload, t.names)
		if err == nil && s.family == kernel.IPv6 {
			all = append(all, s)
		}
		return err
	})
	return all, t.stale(err)
}

// ipv4 reports whether a message is about an IPv4 virtual server, which getsockopt has read. It is
// fast, because the family is the first attribute.
func ipv4(payload []byte) bool {
	a, err := nested(payload, attrService)
	return err == nil && a.Next() && a.Type() == svcFamily && a.U16() == uint16(kernel.IPv4)
}

// dumpDests returns the real servers of a virtual server, valid until the next call. If the virtual
// server does not exist, there are none.
func (t *Table) dumpDests(v kernel.VirtualKey) (all []dest, err error) {
	if err := t.lookup(); err != nil {
		return nil, err
	}
	t.batch.Reset()
	putVirtualKey(&t.batch, t.family, cmdGetDest, v)
	all = t.dests[:0]
	err = t.short.Dump(&t.batch, func() { all = all[:0] }, func(payload []byte) error {
		d, err := decodeDest(payload, v)
		if err == nil {
			all = append(all, d)
		}
		return err
	})
	t.dests = all
	if err == nil {
		t.limits.dumped(v, all)
	}
	return all, t.stale(err)
}

// stale forgets the message type if the kernel does not know it, because the module was unloaded.
func (t *Table) stale(err error) error {
	if errors.Is(err, unix.ENOENT) {
		t.family = 0
	}
	return err
}
