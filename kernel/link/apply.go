package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Apply carries out the ops in order and continues after errors. The result has one error per op.
// It handles kernel.Link (Add, Remove, Change of its name), kernel.Addr, kernel.Route,
// kernel.Announcement and kernel.Neighbor (Add, Remove).
func (l *Links) Apply(ops []kernel.Op) []error {
	a := applying{Links: l, ops: ops, errs: make([]error, len(ops))}
	l.batch.Reset()
	l.sent = l.sent[:0]
	for i := range ops {
		if err := a.put(i); err != nil {
			a.errs[i] = err
		}
	}
	a.send()
	return a.errs
}

// applying is one call of Apply.
type applying struct {
	*Links
	ops  []kernel.Op
	errs []error

	absent    string // a device that does not exist, or is not ours
	absentErr error

	proxied map[addrKey]bool // all proxy neighbours, true if ours; nil before they were read
	indexes map[string]int   // index of each link that has proxy neighbours

	added map[netip.Addr]int  // op of each IPv6 address that this call adds
	local map[netip.Addr]bool // addresses that have their local routes, as last read
}

func (a *applying) put(i int) error {
	op := a.ops[i]
	switch o := op.Object.(type) {
	case kernel.Link:
		return a.putLink(i, op.Verb, o)
	case kernel.Addr:
		return a.putAddr(i, op.Verb, o)
	case kernel.Route:
		return a.putRoute(i, op.Verb, o)
	case kernel.Announcement:
		return a.putAnnouncement(i, op.Verb, o)
	case kernel.Neighbor:
		return a.putNeighbor(i, op.Verb, o)
	}
	return fmt.Errorf("link does not handle objects of kind %s", op.Object.Kind())
}

func (a *applying) putAddr(i int, verb kernel.Verb, o kernel.Addr) error {
	if verb == kernel.Add && o.Addr.Is6() {
		if a.added == nil {
			a.added = make(map[netip.Addr]int)
		}
		a.added[o.Addr] = i
	}
	index, err := a.index(o.Link)
	if err != nil {
		return err
	}
	bits := uint8(o.Addr.BitLen())
	var flags uint8
	switch verb {
	case kernel.Add:
		a.batch.Begin(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
		if o.Addr.Is6() {
			flags = unix.IFA_F_NODAD // otherwise the address is tentative and gets no packets
		}
	case kernel.Remove:
		a.batch.Begin(unix.RTM_DELADDR, 0)
		if odd, ok := a.odd[addrKey{o.Addr, index}]; ok {
			bits = odd
		}
	default:
		return errors.New("an address cannot be changed")
	}
	a.batch.Raw(ifAddr(kernel.FamilyOf(o.Addr), bits, flags, index))
	a.batch.Attr(unix.IFA_LOCAL, o.Addr.AsSlice())
	a.batch.Attr(unix.IFA_ADDRESS, o.Addr.AsSlice())
	a.batch.End()
	a.sent = append(a.sent, i)
	return nil
}

// index returns the index of the device named in an op. The device must be one that we may change.
// Both answers are remembered: its index, and that it does not exist.
func (a *applying) index(name string) (int, error) {
	switch {
	case a.device.index != 0 && a.device.name == name:
		return a.device.index, nil
	case a.absentErr != nil && a.absent == name:
		return 0, a.absentErr
	}
	a.send() // the look-up must see what the batch changes
	d, err := a.lookup(name)
	if err == nil && d.kind != a.kind {
		err = &ForeignError{Device: name, Kind: d.kind, want: a.kind}
	}
	if err != nil {
		a.absent, a.absentErr = name, fmt.Errorf("looking for device %s: %w", name, err)
		return 0, a.absentErr
	}
	a.device, a.last = d, d.index
	return d.index, nil
}

func (a *applying) forget() { a.device, a.absentErr = device{}, nil }

// send sends the batch.
func (a *applying) send() {
	if a.batch.Len() == 0 {
		return
	}
	err := a.conn.Send(&a.batch)
	var failed *nl.BatchError
	switch {
	case errors.As(err, &failed):
		for i := range failed.Messages {
			m := &failed.Messages[i]
			op := a.sent[m.Index]
			a.errs[op] = reason(a.ops[op], m.Err)
			if errors.Is(m.Err, unix.ENODEV) {
				a.forget() // another process removed it
			}
		}
	case err != nil:
		for _, op := range a.sent {
			a.errs[op] = err
		}
	}
	a.batch.Reset()
	a.sent = a.sent[:0]
}

// ifInfo returns a struct ifinfomsg.
func ifInfo(index int) []byte {
	p := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(p[4:], uint32(index))
	return p
}

// ifAddr returns a struct ifaddrmsg of global scope.
func ifAddr(f kernel.Family, bits, flags uint8, index int) []byte {
	p := []byte{uint8(f), bits, flags, unix.RT_SCOPE_UNIVERSE, 0, 0, 0, 0}
	binary.NativeEndian.PutUint32(p[4:], uint32(index))
	return p
}
